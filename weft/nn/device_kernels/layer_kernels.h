// Device kernels of layers (device_kernels.h): norms, activations, rotary embedding and
// cross-entropy, one launch each. Every result has a
// fixed order of sums, so the same bits in every run. Float32, float64, bfloat16 and float16; narrow types are computed in
// float32 and rounded once. None is seen by autograd; tensors are contiguous unless said otherwise.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace weft {

/// Input and parameters of a norm of rows [..., width].
struct DeviceNorm {
  at::Tensor weight;     ///< [width], of the rows' type, or of the statistics'
  at::Tensor bias = {};  ///< the same; undefined: RMS norm
  double eps = 1e-5;     ///< added to the variance, or the mean square
};
/// Rows and statistics: float32, or float64 for float64 rows.
struct DeviceRows {
  at::Tensor sum;        ///< the rows
  at::Tensor mean = {};  ///< [..., 1]; undefined: RMS norm
  at::Tensor scale;      ///< [..., 1]
  at::Tensor y = {};     ///< the norm's output
};
/// Normalises x + added, or x alone.
DeviceRows normalise_on_device(const at::Tensor& x, const at::Tensor& added, const DeviceNorm& norm);
/// Returns y again.
at::Tensor normalise_again_on_device(const DeviceRows& rows, const DeviceNorm& norm);

/// Gradients of a norm.
struct DeviceNormGradients {
  at::Tensor x, weight, bias;  ///< of the inputs; no bias for RMS norm
  at::Tensor y;                ///< the output again, where it is asked for
};
/// Takes the gradient of y, and `residual`, the gradient that reaches the rows past the norm, or undefined.
DeviceNormGradients norm_gradients_on_device(const at::Tensor& dy, const at::Tensor& residual, const DeviceRows& rows,
                                             const DeviceNorm& norm);
/// The same, and y again.
DeviceNormGradients norm_gradients_and_y_on_device(const at::Tensor& dy, const at::Tensor& residual, const DeviceRows& rows,
                                                   const DeviceNorm& norm);

/// Returns GELU of x, or SwiGLU where `up` is defined.
at::Tensor activate_on_device(const at::Tensor& x, const at::Tensor& up = {});
/// Where the gradients of their inputs go, and the output again; each may be an input of the call.
struct DeviceActivationGradients {
  at::Tensor x, up = {}, y = {};  ///< up: of SwiGLU; y: undefined where it is not wanted
};
/// Writes them from the gradient of y.
void activation_gradients_on_device(const DeviceActivationGradients& into, const at::Tensor& dy, const at::Tensor& x,
                                    const at::Tensor& up = {});

/// Turns heads x [samples, heads, tokens, width], of any strides but the last's, into y, by angles [tokens, width / 2] or
/// [samples, 1, tokens, width / 2] of the same strides; back with direction -1.
void turn_on_device(const at::Tensor& y, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, double direction);

/// Cross-entropy of rows of logits, each against a class: float32, or float64 for float64 logits.
struct DeviceLosses {
  at::Tensor losses;    ///< [rows]; zero where the target is ignored
  at::Tensor log_sums;  ///< [2, rows]: largest logits x_max, and log of the sums of exp(x - x_max)
};
/// Logits [rows, classes]; targets [rows] int64, each a class or `ignored`.
DeviceLosses class_losses_on_device(const at::Tensor& logits, const at::Tensor& targets, int64_t ignored);
/// Returns the gradient of the logits, of their type, given that of the summed losses: `factor`, one element of their type.
at::Tensor class_loss_gradient_on_device(const at::Tensor& factor, const at::Tensor& logits, const at::Tensor& targets,
                                         const at::Tensor& log_sums, int64_t ignored);

}  // namespace weft
