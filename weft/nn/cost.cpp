#include "weft/nn/cost.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <string_view>

#include "weft/nn/graph.h"
#include "weft/nn/meta_kernels.h"
#include "weft/nn/split_backward.h"

namespace weft {

namespace {

/// What one measurement has seen on this thread. The dispatcher's observer has no argument of its own, hence the thread-local.
struct Observation {
  double flops = 0.0;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> made;  ///< each once
  std::vector<const c10::StorageImpl*> known;                   ///< not counted: inputs and parameters
  int64_t peak_bytes = 0;

  int64_t live_bytes() const {
    int64_t bytes = 0;
    for (const auto& weak : made) {
      if (const auto storage = weak.lock()) bytes += static_cast<int64_t>(storage->nbytes());
    }
    return bytes;
  }
  void see(c10::StorageImpl* storage) {
    if (std::find(known.begin(), known.end(), storage) != known.end()) return;
    std::erase_if(made, [](const auto& weak) { return weak.expired(); });
    for (const auto& weak : made) {
      if (weak.lock().get() == storage) return;
    }
    made.emplace_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage));
  }
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
    observation->see(value.toTensor().storage().unsafeGetStorageImpl());
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
  observation->peak_bytes = std::max(observation->peak_bytes, observation->live_bytes());
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

void add_known(Observation& seen, const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined()) seen.known.push_back(tensor.storage().unsafeGetStorageImpl());
  }
}

/// Made since, still alive, and not among `tensors`.
int64_t live_bytes_without(const Observation& seen, const Tensors& tensors) {
  int64_t bytes = seen.live_bytes();
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    const auto* storage = tensor.storage().unsafeGetStorageImpl();
    const auto made = [storage](const auto& weak) { return weak.lock().get() == storage; };
    if (std::any_of(seen.made.begin(), seen.made.end(), made)) bytes -= static_cast<int64_t>(storage->nbytes());
  }
  return bytes;
}

/// Gives the parameters the types of a run, and places for their gradients, so that layers write there as they do in a run.
void prepare(Model& model, const CostOptions& options) {
  for (NamedBlock& named : model.blocks) {
    for (const ParamSpec& spec : named.block->parameters()) {
      Parameter& parameter = *spec.parameter;
      if (!spec.wide) parameter.value = parameter.value.detach().to(options.weight_dtype);
      if (spec.statistic) continue;
      parameter.value.requires_grad_(true);
      parameter.gradient = at::empty_like(parameter.value, parameter.value.options().dtype(options.gradient_dtype));
    }
  }
}

void restore(Model& model) {
  for (NamedBlock& named : model.blocks) {
    for (const ParamSpec& spec : named.block->parameters()) {
      spec.parameter->value = spec.parameter->value.detach().to(at::kFloat);
      spec.parameter->gradient.reset();
    }
  }
}

MeasuredCost measure_block(Model& model, size_t index, const Tensors& inputs, const Context& context, Tensors& outputs) {
  MeasuredCost cost;
  Observation seen;
  const Tensors in = index == 0 ? inputs : detach(inputs);
  add_known(seen, in);
  for (NamedBlock& named : model.blocks) {
    for (const ParamSpec& spec : named.block->parameters()) add_known(seen, {spec.parameter->value, spec.parameter->gradient});
  }
  Observer observer(seen);
  Block& block = *model.blocks[index].block;
  Tensors out = block.forward(in, context);
  outputs = detach(out);
  cost.forward_flops = seen.flops;
  cost.output_bytes = bytes_of(out);
  cost.saved_bytes = live_bytes_without(seen, out);
  cost.forward_peak_bytes = seen.peak_bytes;
  seen.flops = 0.0;
  seen.peak_bytes = 0;
  Tensors gradients;
  for (const at::Tensor& output : out) gradients.push_back(at::empty_like(output));
  run_backward(out, gradients);
  cost.backward_flops = seen.flops;
  cost.backward_peak_bytes = seen.peak_bytes;
  for (NamedBlock& named : model.blocks) {
    for (const ParamSpec& spec : named.block->parameters()) spec.parameter->value.mutable_grad().reset();
  }
  return cost;
}

/// Runs the block once more, its backward in two parts.
void measure_split(Model& model, size_t index, const Tensors& inputs, const Context& context, MeasuredCost& cost) {
  Block& block = *model.blocks[index].block;
  if (!block.can_split_backward()) return;
  const Tensors in = index == 0 ? inputs : detach(inputs);
  Observation seen;
  add_known(seen, in);
  std::vector<Parameter*> parameters;
  for (NamedBlock& named : model.blocks) {
    for (const ParamSpec& spec : named.block->parameters()) {
      add_known(seen, {spec.parameter->value, spec.parameter->gradient});
      if (!spec.statistic) parameters.push_back(spec.parameter);
    }
  }
  Observer observer(seen);
  Tensors out = block.forward(in, context), gradients;
  for (const at::Tensor& output : out) gradients.push_back(at::empty_like(output));
  seen.flops = 0.0;
  const DeferredGradients deferred = run_backward_input(parameters, out, gradients);
  cost.input_flops = seen.flops;
  out.clear();
  gradients.clear();
  cost.deferred_bytes = live_bytes_without(seen, take_gradients(in));
}

/// Real work, but so little that no pool of threads should be started for it: that would outlive it, and a fork.
class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

/// One sample of zeros, in the shape and type of `like`.
at::Tensor one_sample(const at::Tensor& like) {
  std::vector<int64_t> sizes = like.sizes().vec();
  sizes[0] = 1;
  return at::zeros(sizes, at::TensorOptions(like.scalar_type())).requires_grad_(like.is_floating_point());
}

}  // namespace

std::vector<MeasuredCost> measure_cost(Model& model, const Tensors& inputs, const CostOptions& options) {
  register_meta_kernels();
  prepare(model, options);
  std::vector<MeasuredCost> costs;
  Tensors activations;
  for (const at::Tensor& input : inputs) {
    activations.push_back(input.is_floating_point() ? input.to(options.weight_dtype) : input);
  }
  const Context context{.recompute_parts = options.recompute_parts};
  for (size_t b = 0; b < model.blocks.size(); ++b) {
    Tensors outputs;
    costs.push_back(measure_block(model, b, activations, context, outputs));
    measure_split(model, b, activations, context, costs.back());
    activations = outputs;
  }
  restore(model);
  return costs;
}

int64_t measure_loss_peak(const Model& model, const Tensors& outputs, at::IntArrayRef target_shape) {
  Tensors sample;
  for (const at::Tensor& output : outputs) sample.push_back(one_sample(output));
  std::vector<int64_t> shape = target_shape.vec();
  shape.insert(shape.begin(), 1);
  const at::Tensor target = at::zeros(shape, at::TensorOptions(at::kLong));
  const OneThread one_thread;
  Observation seen;
  add_known(seen, sample);
  add_known(seen, {target});
  Observer observer(seen);
  const auto widen = [&] {
    Tensors wide;
    for (const at::Tensor& x : sample) wide.push_back(x.is_floating_point() ? x.to(at::kFloat) : x);
    return wide;
  };
  const LossValue loss = model.loss(widen(), target);
  torch::autograd::backward({loss.sum}, {});
  return seen.peak_bytes * outputs.front().size(0);
}

}  // namespace weft
