// The options of optimizers that need whole tensors, gathered from the shards (block_update.h). As in optimizer_options.h a
// default that is not told otherwise is that of PyTorch's optimizer of the name.
#pragma once

#include "weft/base/enum_names.h"

namespace weft {

/// How the rate of a matrix [rows, columns] follows its shape: lr sqrt(max(1, rows / columns)) (Jordan et al. 2024), or 0.2 lr
/// sqrt(max(rows, columns)), with which moves are as large as AdamW's (Liu et al. 2025, arXiv:2502.16982).
enum class MatrixRate { original, match_rms_adamw };
/// The words for them, as recipes have them.
inline constexpr EnumNames<MatrixRate, 2> kMatrixRates("original", "match_rms_adamw");

/// Orthogonal moves of hidden matrices (Jordan et al. 2024, kellerjordan.github.io/posts/muon), as PyTorch's Muon makes them: m
/// += (1 - momentum) (g - m); u = g + momentum (m - g) (without Nesterov: m); w -= lr weight_decay w + rate O(u), where O takes
/// u towards the nearest orthogonal matrix in ns_steps Newton-Schulz steps in bfloat16, and rate is by `adjust`. What is no
/// hidden matrix (hidden_matrices.h) takes AdamW's update at the rate adam_lr, which the schedule changes as it does lr. State:
/// 4 bytes a parameter of matrices, 8 of others. Each rank orthogonalises the matrices of which it owns a part.
struct Muon {
  double lr = 1e-3;                          ///< learning rate of matrices, where no schedule tells it; above 0
  double momentum = 0.95;                    ///< in [0, 1)
  bool nesterov = true;                      ///< needs momentum
  int ns_steps = 5;                          ///< in [1, 99]
  double ns_eps = 1e-7;                      ///< smallest norm that u is divided by; above 0
  MatrixRate adjust = MatrixRate::original;  ///< what lr is times
  double weight_decay = 0.1;  ///< times the rate, lr or adam_lr: the share of itself that a weight loses in a step
  double adam_lr = 3e-4;      ///< AdamW's learning rate beside a rate of lr
  double beta1 = 0.9;         ///< AdamW's, in [0, 1)
  double beta2 = 0.999;       ///< the same
  double eps = 1e-8;          ///< AdamW's, above 0
};

/// Squares of gradients by their means over rows and over columns (Shazeer & Stern 2018, arXiv:1804.04235), as PyTorch's
/// Adafactor has it: of each whole tensor at update t, with s = 1 - t^beta2_decay: r = s r + (1 - s) mean over columns of g^2,
/// c the same over rows, u = g / max(sqrt(r c / mean(r)), eps); w -= lr weight_decay w + rate u / max(1, rms(u) / update_clip),
/// rate = min(lr, 1 / sqrt(t)) max(min_rms, rms(w)). Of more than two dimensions the last two are rows and columns; a vector
/// keeps s of each element. State: 4 bytes for each row and each column of a matrix, on every rank, and 4 bytes an element of
/// vectors. There is no momentum.
struct Adafactor {
  double lr = 0.01;  ///< learning rate, where no schedule tells it: the largest share of its rms that a weight moves by
  double beta2_decay = -0.8;  ///< at most 0
  double eps = 0x1p-23;       ///< above 0: float32's
  double min_rms = 1e-3;      ///< at least 0
  double update_clip = 1.0;   ///< the paper's d, at least 1
  double weight_decay = 0.0;  ///< times the learning rate: the share of itself that a weight loses in a step
};

}  // namespace weft
