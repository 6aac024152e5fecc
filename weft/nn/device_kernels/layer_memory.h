// What device kernels of layers read and write: for the CPU's path, and for CUDA, where it travels as arguments.
#pragma once

#include <cstdint>

namespace weft {

/// Rows [rows, width] of a norm, contiguous; null: not there. Statistics are float32, or float64 for float64 rows.
struct NormMemory {
  const void* x = nullptr;           ///< input; in backward the value that was normalised
  const void* added = nullptr;       ///< forward: added to x
  void* sum = nullptr;               ///< forward, with `added`: the rounded sum, which is normalised
  void* y = nullptr;                 ///< the norm's output
  void* made_mean = nullptr;         ///< forward, [rows]; null: RMS norm
  void* made_scale = nullptr;        ///< forward, [rows]: 1 / root(variance, or mean square, + eps)
  const void* mean = nullptr;        ///< the same, known
  const void* scale = nullptr;       ///< the same, known
  const void* weight = nullptr;      ///< [width]
  const void* bias = nullptr;        ///< [width]; null: RMS norm
  bool has_wide_parameters = false;  ///< weight, bias and their gradients have the statistics' type, otherwise the rows'
  const void* dy = nullptr;          ///< backward: gradient of y
  const void* residual = nullptr;    ///< backward: gradient that reaches x past the norm
  void* dx = nullptr;                ///< backward
  void* d_weight = nullptr;          ///< backward, [width]
  void* d_bias = nullptr;            ///< backward, [width]; null: RMS norm
  int64_t rows = 0, width = 0;       ///< of all arrays
  double eps = 0.0;                  ///< forward
};

/// Elements of GELU, or of SwiGLU where there is `up`; those written may be those read.
struct ActivationMemory {
  const void* x = nullptr;   ///< input, or SwiGLU's gate
  const void* up = nullptr;  ///< SwiGLU
  void* y = nullptr;         ///< output; null in backward: not computed
  const void* dy = nullptr;  ///< backward: gradient of y
  void* dx = nullptr;        ///< backward: gradient of x
  void* d_up = nullptr;      ///< backward of SwiGLU
  int64_t numel = 0;         ///< elements of each
};

/// Heads [samples, heads, tokens, 2 half], and their angles; strides in elements.
struct RotaryMemory {
  const void *x = nullptr, *cos = nullptr, *sin = nullptr;
  void* y = nullptr;
  int64_t samples = 0, heads = 0, tokens = 0, half = 0;
  int64_t x_sample = 0, x_head = 0, x_token = 0;
  int64_t y_sample = 0, y_head = 0, y_token = 0;
  int64_t angle_sample = 0, angle_token = 0;
  double direction = 1.0;  ///< -1: back

  /// Pairs of elements.
  int64_t numel() const { return samples * heads * tokens * half; }
};

/// Rows of logits [rows, classes] against a class each.
struct LossMemory {
  const void* logits = nullptr;
  const int64_t* targets = nullptr;  ///< [rows]: classes, or `ignored`
  void* losses = nullptr;            ///< forward, [rows]: float32, or float64 for float64 logits
  void* log_sums = nullptr;  ///< [2, rows], the same: largest logits, and logarithms of the sums beside them; backward: read
  const void* factor = nullptr;  ///< backward, the same, one element: the gradient of the summed losses
  void* gradient = nullptr;      ///< backward, [rows, classes]
  int64_t rows = 0, classes = 0, ignored = 0;
};

}  // namespace weft
