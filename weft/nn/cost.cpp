#include "weft/nn/cost.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <string_view>

#include "weft/nn/meta_kernels.h"

namespace weft {

namespace {

/// What one measurement has seen on this thread. The dispatcher's observer has no argument of its own, hence the thread-local.
struct Observation {
  double flops = 0.0;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> made;
};
thread_local Observation* observation = nullptr;

double product(at::IntArrayRef sizes) {
  double result = 1.0;
  for (int64_t size : sizes) result *= static_cast<double>(size);
  return result;
}

/// 2 x rows x inner x columns, from the two factors among the inputs.
double matrix_flops(const at::Tensor& left, const at::Tensor& right) { return 2.0 * product(left.sizes()) * right.size(-1); }

/// Every output element sums over (input channels / groups) x kernel elements: numel(weight) / output channels.
double convolution_flops(const at::Tensor& output, const at::Tensor& weight) {
  return 2.0 * product(output.sizes()) * product(weight.sizes()) / static_cast<double>(weight.size(0));
}

/// Scores and weighted values: two products of [tokens, head width] and [tokens, tokens] a head, the masked half counted too.
double attention_flops(const at::Tensor& query) { return 4.0 * product(query.sizes()) * static_cast<double>(query.size(2)); }

double flops_of(const at::RecordFunction& fn) {
  const std::string_view op = fn.name();
  const auto in = fn.inputs();
  if (op == "aten::mm" || op == "aten::bmm") return matrix_flops(in[0].toTensor(), in[1].toTensor());
  if (op == "aten::addmm" || op == "aten::baddbmm") return matrix_flops(in[1].toTensor(), in[2].toTensor());
  if (op == "aten::convolution_backward") {  // one convolution for the input's gradient, one for the weight's
    const c10::List<bool> mask = fn.inputs()[10].toBoolList();
    return (mask.get(0) + mask.get(1)) * convolution_flops(in[0].toTensor(), in[2].toTensor());
  }
  if (op == "aten::_scaled_dot_product_flash_attention_for_cpu") return attention_flops(in[0].toTensor());
  if (op == "aten::_scaled_dot_product_flash_attention_for_cpu_backward") {  // the scores once more, and four products
    return 2.5 * attention_flops(in[1].toTensor());
  }
  return 0.0;
}

void see_output(const c10::IValue& value) {
  if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) see_output(tensor);
  } else if (value.isTensor() && value.toTensor().defined() && value.toTensor().has_storage()) {
    const at::Tensor& tensor = value.toTensor();
    observation->made.emplace_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(tensor.storage().unsafeGetStorageImpl()));
  }
}

/// A convolution's operations follow from its output, which is there only after it, and its weight, which is there only before.
struct Convolution : at::ObserverContext {
  explicit Convolution(at::Tensor weight) : weight(std::move(weight)) {}
  at::Tensor weight;
};

std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& fn) {
  if (!observation) return nullptr;
  observation->flops += flops_of(fn);
  if (std::string_view(fn.name()) != "aten::convolution") return nullptr;
  return std::make_unique<Convolution>(fn.inputs()[1].toTensor());
}

void after(const at::RecordFunction& fn, at::ObserverContext* context) {
  if (!observation) return;
  for (const c10::IValue& output : fn.outputs()) see_output(output);
  if (const auto* convolution = static_cast<const Convolution*>(context)) {
    observation->flops += convolution_flops(fn.outputs()[0].toTensor(), convolution->weight);
  }
}

/// Observes this thread while it lives.
class Observer {
 public:
  explicit Observer(Observation& seen) {
    observation = &seen;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(before, after)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  }
  ~Observer() {
    at::removeCallback(handle_);
    observation = nullptr;
  }
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

 private:
  at::CallbackHandle handle_;
};

int64_t bytes_of(const Tensors& tensors) {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += tensor.numel() * tensor.element_size();
  return bytes;
}

std::vector<const c10::StorageImpl*> storages(const Tensors& tensors) {
  std::vector<const c10::StorageImpl*> result;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined()) result.push_back(tensor.storage().unsafeGetStorageImpl());
  }
  return result;
}

/// Bytes of the storages made since that still live, those of `known` tensors excluded.
int64_t live_bytes(const Observation& seen, const Tensors& known) {
  std::vector<const c10::StorageImpl*> counted = storages(known);
  int64_t bytes = 0;
  for (const auto& weak : seen.made) {
    const auto storage = weak.lock();
    if (!storage || std::find(counted.begin(), counted.end(), storage.get()) != counted.end()) continue;
    counted.push_back(storage.get());
    bytes += static_cast<int64_t>(storage->nbytes());
  }
  return bytes;
}

Tensors detach(const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& tensor : tensors) {
    result.push_back(tensor.detach());
    if (tensor.is_floating_point()) result.back().requires_grad_(true);
  }
  return result;
}

void require_gradients(Model& model) {
  for (NamedBlock& named : model.blocks) {
    for (const ParamSpec& spec : named.block->parameters()) spec.parameter->value.requires_grad_(!spec.statistic);
  }
}

MeasuredCost measure_block(Block& block, const Tensors& inputs, bool first, Tensors& outputs) {
  MeasuredCost cost;
  Observation seen;
  Observer observer(seen);
  Tensors in = first ? inputs : detach(inputs);
  outputs = block.forward(in, Context{});
  cost.forward_flops = seen.flops;
  cost.output_bytes = bytes_of(outputs);
  Tensors known = in;
  known.insert(known.end(), outputs.begin(), outputs.end());
  for (const ParamSpec& spec : block.parameters()) known.push_back(spec.parameter->value);
  cost.saved_bytes = live_bytes(seen, known);
  seen.flops = 0.0;
  Tensors differentiable, gradients;
  for (const at::Tensor& out : outputs) {
    if (!out.requires_grad()) continue;
    differentiable.push_back(out);
    gradients.push_back(at::empty_like(out));
  }
  if (!differentiable.empty()) torch::autograd::backward(differentiable, gradients);
  cost.backward_flops = seen.flops;
  for (const ParamSpec& spec : block.parameters()) spec.parameter->value.mutable_grad().reset();
  return cost;
}

}  // namespace

std::vector<MeasuredCost> measure_cost(Model& model, const Tensors& inputs) {
  register_meta_kernels();
  require_gradients(model);
  std::vector<MeasuredCost> costs;
  Tensors activations = inputs;
  for (size_t b = 0; b < model.blocks.size(); ++b) {
    Tensors outputs;
    costs.push_back(measure_block(*model.blocks[b].block, activations, b == 0, outputs));
    activations = detach(outputs);
  }
  return costs;
}

}  // namespace weft
