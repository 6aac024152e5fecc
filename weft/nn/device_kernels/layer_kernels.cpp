#include "weft/nn/device_kernels/layer_kernels.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <optional>
#include <vector>

#include "weft/nn/device_kernels/cuda_kernels.h"
#include "weft/nn/device_kernels/layer_operators.h"

namespace weft {

namespace {

using Tensor = at::Tensor;
using Optional = std::optional<at::Tensor>;

/// The dispatcher's entry for an operator with this signature.
template <class Signature>
auto layer_entry(const char* name) {
  load_cuda_kernels();
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

Optional given(const Tensor& x) { return x.defined() ? Optional(x) : std::nullopt; }

DeviceNormGradients norm_gradients_of(const Tensor& dy, const Tensor& residual, const DeviceRows& rows, const DeviceNorm& norm,
                                      bool with_y) {
  using Signature = std::vector<Tensor>(const Tensor&, const Optional&, const Tensor&, const Optional&, const Tensor&,
                                        const Tensor&, const Optional&, bool);
  static const auto run = layer_entry<Signature>("weft::norm_gradients");
  const at::AutoDispatchBelowADInplaceOrView below;
  const bool centres = norm.bias.defined();
  std::vector<Tensor> all =
      run.call(dy, given(residual), rows.sum, given(rows.mean), rows.scale, norm.weight, given(norm.bias), with_y);
  return {all[0], all[1], centres ? all[2] : Tensor(), with_y ? all.back() : Tensor()};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(weft, operators) {
  operators.def("norm(Tensor x, Tensor? added, Tensor weight, Tensor? bias, float eps) -> Tensor[]");
  operators.def("norm_again(Tensor x, Tensor? mean, Tensor scale, Tensor weight, Tensor? bias) -> Tensor");
  operators.def(
      "norm_gradients(Tensor dy, Tensor? residual, Tensor x, Tensor? mean, Tensor scale, Tensor weight, Tensor? bias, bool "
      "with_y) -> Tensor[]");
  operators.def("activation(Tensor x, Tensor? up) -> Tensor");
  operators.def("activation_gradients(Tensor(a!) dx, Tensor(b!)? d_up, Tensor(c!)? y, Tensor dy, Tensor x, Tensor? up) -> ()");
  operators.def("turn(Tensor(a!) y, Tensor x, Tensor cos, Tensor sin, float direction) -> ()");
  operators.def("class_losses(Tensor logits, Tensor targets, int ignored) -> Tensor[]");
  operators.def("class_loss_gradient(Tensor factor, Tensor logits, Tensor targets, Tensor log_sums, int ignored) -> Tensor");
}

TORCH_LIBRARY_IMPL(weft, CPU, operators) { implement_layer_operators(operators); }
TORCH_LIBRARY_IMPL(weft, Meta, operators) { implement_layer_operators(operators); }

DeviceRows normalise_on_device(const Tensor& x, const Tensor& added, const DeviceNorm& norm) {
  using Signature = std::vector<Tensor>(const Tensor&, const Optional&, const Tensor&, const Optional&, double);
  static const auto run = layer_entry<Signature>("weft::norm");
  const at::AutoDispatchBelowADInplaceOrView below;
  std::vector<Tensor> all = run.call(x, given(added), norm.weight, given(norm.bias), norm.eps);
  return {added.defined() ? all.back() : x, norm.bias.defined() ? all[2] : Tensor(), all[1], all[0]};
}

Tensor normalise_again_on_device(const DeviceRows& rows, const DeviceNorm& norm) {
  using Signature = Tensor(const Tensor&, const Optional&, const Tensor&, const Tensor&, const Optional&);
  static const auto run = layer_entry<Signature>("weft::norm_again");
  const at::AutoDispatchBelowADInplaceOrView below;
  return run.call(rows.sum, given(rows.mean), rows.scale, norm.weight, given(norm.bias));
}

DeviceNormGradients norm_gradients_on_device(const Tensor& dy, const Tensor& residual, const DeviceRows& rows,
                                             const DeviceNorm& norm) {
  return norm_gradients_of(dy, residual, rows, norm, false);
}

DeviceNormGradients norm_gradients_and_y_on_device(const Tensor& dy, const Tensor& residual, const DeviceRows& rows,
                                                   const DeviceNorm& norm) {
  return norm_gradients_of(dy, residual, rows, norm, true);
}

Tensor activate_on_device(const Tensor& x, const Tensor& up) {
  using Signature = Tensor(const Tensor&, const Optional&);
  static const auto run = layer_entry<Signature>("weft::activation");
  const at::AutoDispatchBelowADInplaceOrView below;
  return run.call(x, given(up));
}

void activation_gradients_on_device(const DeviceActivationGradients& into, const Tensor& dy, const Tensor& x,
                                    const Tensor& up) {
  using Signature = void(const Tensor&, const Optional&, const Optional&, const Tensor&, const Tensor&, const Optional&);
  static const auto run = layer_entry<Signature>("weft::activation_gradients");
  const at::AutoDispatchBelowADInplaceOrView below;
  run.call(into.x, given(into.up), given(into.y), dy, x, given(up));
}

void turn_on_device(const Tensor& y, const Tensor& x, const Tensor& cos, const Tensor& sin, double direction) {
  using Signature = void(const Tensor&, const Tensor&, const Tensor&, const Tensor&, double);
  static const auto run = layer_entry<Signature>("weft::turn");
  const at::AutoDispatchBelowADInplaceOrView below;
  run.call(y, x, cos, sin, direction);
}

DeviceLosses class_losses_on_device(const Tensor& logits, const Tensor& targets, int64_t ignored) {
  using Signature = std::vector<Tensor>(const Tensor&, const Tensor&, int64_t);
  static const auto run = layer_entry<Signature>("weft::class_losses");
  const at::AutoDispatchBelowADInplaceOrView below;
  const std::vector<Tensor> all = run.call(logits, targets, ignored);
  return {all[0], all[1]};
}

Tensor class_loss_gradient_on_device(const Tensor& factor, const Tensor& logits, const Tensor& targets, const Tensor& log_sums,
                                     int64_t ignored) {
  using Signature = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, int64_t);
  static const auto run = layer_entry<Signature>("weft::class_loss_gradient");
  const at::AutoDispatchBelowADInplaceOrView below;
  return run.call(factor, logits, targets, log_sums, ignored);
}

}  // namespace weft
