#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <optional>

#include "weft/nn/device_kernels/cuda_kernels.h"
#include "weft/nn/device_kernels/device_kernels.h"
#include "weft/nn/device_kernels/step_buffers.h"

namespace weft {

namespace {

using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, at::Tensor&, const std::optional<at::Tensor>&,
                             const std::optional<at::Tensor>&, int64_t, int64_t, double, double, double, bool, double, double,
                             double);

std::optional<at::Tensor> if_defined(const at::Tensor& x) { return x.defined() ? std::optional(x) : std::nullopt; }

at::Tensor step_numbers_on_cpu(const at::Tensor& losses, const at::Tensor& found, at::Tensor& gate,
                               const std::optional<at::Tensor>& scale, const std::optional<at::Tensor>& rate, int64_t places,
                               int64_t votes, double all_micro_batches, double nominal_targets, double loss_scale,
                               bool has_norm, double clip, double most, double small_batches) {
  const StepFacts facts{places, votes, all_micro_batches, nominal_targets, loss_scale, has_norm, clip, most, small_batches};
  at::Tensor numbers = at::empty({count_of_numbers(facts)}, losses.options());
  make_step_numbers(facts, step_buffers(losses, found, numbers, gate, scale, rate));
  return numbers;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(weft, operators) {
  operators.def(
      "step_numbers(Tensor losses, Tensor found, Tensor(a!) gate, Tensor(b!)? scale, Tensor(c!)? rate, int places, int votes, "
      "float all_micro_batches, float nominal_targets, float loss_scale, bool has_norm, float clip, float most, float "
      "small_batches) -> "
      "Tensor");
}

TORCH_LIBRARY_IMPL(weft, CPU, operators) { operators.impl("step_numbers", step_numbers_on_cpu); }

at::Tensor step_numbers(const StepFacts& facts, const StepTensors& tensors) {
  load_cuda_kernels();
  static const auto run = c10::Dispatcher::singleton().findSchemaOrThrow("weft::step_numbers", "").typed<Signature>();
  at::Tensor gate = tensors.gate;
  return run.call(tensors.losses, tensors.found, gate, if_defined(tensors.scale), if_defined(tensors.rate), facts.places,
                  facts.votes, facts.all_micro_batches, facts.nominal_targets, facts.loss_scale, facts.has_norm, facts.clip,
                  facts.most, facts.small_batches);
}

}  // namespace weft
