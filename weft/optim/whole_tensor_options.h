// Options of optimizers that need whole tensors, gathered from the shards (block_update.h). Unless noted, defaults are those of
// PyTorch's optimizer of the same name, as in optimizer_options.h.
#pragma once

#include "weft/base/enum_names.h"

namespace weft {

/// Scaling of the rate of a matrix [rows, columns] by its shape: lr sqrt(max(1, rows / columns)) (Jordan et al. 2024), or 0.2
/// lr sqrt(max(rows, columns)), which gives AdamW-sized updates (Liu et al. 2025, arXiv:2502.16982).
enum class MatrixRate { original, match_rms_adamw };
/// Names of the scalings in recipes.
inline constexpr EnumNames<MatrixRate, 2> kMatrixRates("original", "match_rms_adamw");

/// Orthogonal updates of hidden matrices (Jordan et al. 2024, kellerjordan.github.io/posts/muon), as PyTorch's Muon: m += (1 -
/// momentum) (g - m); u = g + momentum (m - g) (without Nesterov: m); w -= lr weight_decay w + rate O(u), where O moves u
/// towards the nearest orthogonal matrix in ns_steps Newton-Schulz steps in bfloat16, and rate follows `adjust`. Other
/// parameters (hidden_matrices.h) take AdamW's update at the rate adam_lr, which the schedule scales like lr. State: 4 bytes
/// per matrix parameter, 8 per other. Each rank orthogonalises the matrices that it owns parts of.
struct Muon {
  double lr = 1e-3;                          ///< learning rate of matrices, if no schedule sets it; above 0
  double momentum = 0.95;                    ///< in [0, 1)
  bool nesterov = true;                      ///< needs momentum
  int ns_steps = 5;                          ///< in [1, 99]
  double ns_eps = 1e-7;                      ///< lower limit of the norm that u is divided by; above 0
  MatrixRate adjust = MatrixRate::original;  ///< factor of lr
  double weight_decay = 0.1;                 ///< a step multiplies weights by 1 - rate weight_decay, with rate lr or adam_lr
  double adam_lr = 3e-4;                     ///< AdamW's learning rate when the matrices' is lr
  double beta1 = 0.9;                        ///< AdamW's, in [0, 1)
  double beta2 = 0.999;                      ///< AdamW's, in [0, 1)
  double eps = 1e-8;                         ///< AdamW's, above 0
};

/// Squared gradients, estimated from row and column means (Shazeer & Stern 2018, arXiv:1804.04235), as in PyTorch's
/// Adafactor: for each whole tensor at update t, with s = 1 - t^beta2_decay: r = s r + (1 - s) mean over columns of g^2, c the
/// same over rows, u = g / max(sqrt(r c / mean(r)), eps); w -= lr weight_decay w + rate u / max(1, rms(u) / update_clip), rate
/// = min(lr, 1 / sqrt(t)) max(min_rms, rms(w)). With more than two dimensions, the last two are rows and columns; a vector
/// keeps the mean of g^2 of each element. State: 4 bytes for each row and each column of a matrix, on every rank, and 4 bytes
/// per element of vectors. No momentum.
struct Adafactor {
  double lr = 0.01;           ///< learning rate, if no schedule sets it: bounds rms(update) / rms(tensor)
  double beta2_decay = -0.8;  ///< at most 0
  double eps = 0x1p-23;       ///< above 0; float32's epsilon
  double min_rms = 1e-3;      ///< at least 0
  double update_clip = 1.0;   ///< the paper's d, at least 1
  double weight_decay = 0.0;  ///< a step multiplies weights by 1 - lr weight_decay
};

}  // namespace weft
