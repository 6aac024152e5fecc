#include "weft/nn/cost/measure_cost.h"

#include <ATen/ops/empty_like.h>
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "weft/nn/cost/activation_bytes.h"
#include "weft/nn/cost/flops.h"
#include "weft/nn/cost/made_parameters.h"
#include "weft/nn/cost/meta_kernels.h"
#include "weft/nn/cost/recorded_group.h"
#include "weft/nn/deferred_gradients.h"
#include "weft/nn/graph.h"
#include "weft/nn/kernels/kernel_table.h"

namespace weft {

namespace {

using Storages = std::unordered_set<const c10::StorageImpl*>;

/// Observations of one measurement on this thread. The dispatcher's observer takes no argument, hence the thread-local.
struct Observation {
  Observation(const Storages& parameters, TargetDevice device) : parameters(parameters), device(device) {}

  const Storages& parameters;  ///< not counted
  TargetDevice device;         ///< whose allocator's rounding counts
  Storages inputs;             ///< not counted either
  double flops = 0.0;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> made;  ///< each listed once
  int64_t peak_bytes = 0;

  int64_t bytes_in(const c10::StorageImpl& x) const { return allocated_bytes(device, static_cast<int64_t>(x.nbytes())); }
  int64_t live_bytes() const {
    int64_t bytes = 0;
    for (const auto& weak : made) {
      if (const auto storage = weak.lock()) bytes += bytes_in(*storage);
    }
    return bytes;
  }
  void observe(c10::StorageImpl* storage) {
    if (parameters.count(storage) != 0 || inputs.count(storage) != 0) return;
    std::erase_if(made, [](const auto& weak) { return weak.expired(); });
    for (const auto& weak : made) {
      if (weak.lock().get() == storage) return;
    }
    made.emplace_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage));
  }
};
thread_local Observation* observation = nullptr;

double flops_so_far() { return observation ? observation->flops : 0.0; }

void see_output(const c10::IValue& value) {
  if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) see_output(tensor);
  } else if (value.isTensor() && value.toTensor().defined() && value.toTensor().has_storage()) {
    observation->observe(value.toTensor().storage().unsafeGetStorageImpl());
  }
}

/// A convolution's operations depend on its output, which exists only afterwards, and its weight, which is visible only before.
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

/// Observes this thread while alive.
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

void add(Storages& storages, const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined()) storages.insert(tensor.storage().unsafeGetStorageImpl());
  }
}

/// Bytes of storages made during the observation that are still alive and not among `tensors`.
int64_t live_bytes_without(const Observation& seen, const Tensors& tensors) {
  int64_t bytes = seen.live_bytes();
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    const auto* storage = tensor.storage().unsafeGetStorageImpl();
    const auto made = [storage](const auto& weak) { return weak.lock().get() == storage; };
    if (std::any_of(seen.made.begin(), seen.made.end(), made)) bytes -= seen.bytes_in(*storage);
  }
  return bytes;
}

/// Tensors with memory of their own, so that it shows who keeps them.
Tensors like(const Tensors& tensors) {
  Tensors own;
  own.reserve(tensors.size());
  for (const at::Tensor& x : tensors) own.push_back(at::empty_like(x).requires_grad_(x.requires_grad()));
  return own;
}

/// Frees the tensors; returns the bytes of those that something else keeps.
int64_t bytes_kept_of(Tensors& tensors, Observation& seen) {
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> storages;
  for (const at::Tensor& x : tensors) storages.emplace_back(x.storage().getWeakStorageImpl());
  tensors.clear();
  int64_t bytes = 0;
  for (const auto& weak : storages) {
    if (const auto storage = weak.lock()) bytes += seen.bytes_in(*storage);
  }
  return bytes;
}

Storages storages_of_parameters(Model& model) {
  Storages storages;
  for (NamedBlock& named : model.blocks) {
    for (const ParamSpec& spec : named.block->parameters()) add(storages, {spec.parameter->value, spec.parameter->gradient});
  }
  return storages;
}

/// Parameters of the block, and of every block whose weights it reads.
std::vector<ParamSpec> parameters_it_reads(const Model& model, const NamedBlock& named) {
  std::vector<ParamSpec> specs = named.block->parameters();
  for (const int used : named.uses) {
    for (ParamSpec& spec : model.blocks[static_cast<size_t>(used)].block->parameters()) specs.push_back(std::move(spec));
  }
  return specs;
}

/// A key equal for blocks that run the same operations on tensors of the same kind; empty for a block that matches no other.
std::string cost_key(const NamedBlock& named, const Tensors& inputs) {
  const auto* with_kind = dynamic_cast<const HasKind*>(named.block.get());
  if (with_kind == nullptr || !named.uses.empty()) return {};
  const Block& block = *named.block;
  std::string text = fmt::format("{}; {}", typeid(block).name(), with_kind->kind());
  const auto add_tensor = [&text](const at::Tensor& x) {
    text += fmt::format("; {} [{}] [{}]{}", static_cast<int>(x.scalar_type()), fmt::join(x.sizes(), ","),
                        fmt::join(x.strides(), ","), x.requires_grad() ? " d" : "");
  };
  for (const at::Tensor& input : inputs) add_tensor(input);
  for (const ParamSpec& spec : named.block->parameters()) {
    text += fmt::format("; {}", spec.name);
    add_tensor(spec.parameter->value);
  }
  return text;
}

/// Runs one block of a model with prepared parameters.
class BlockMeasurement {
 public:
  BlockMeasurement(const Model& model, size_t index, const Storages& parameters, const CostOptions& options)
      : block_(*model.blocks[index].block),
        is_first_(index == 0),
        specs_(parameters_it_reads(model, model.blocks[index])),
        parameters_(parameters),
        device_(options.device),
        recorded_(options, flops_so_far) {}

  MeasuredCost run(const Tensors& inputs, Tensors& outputs) const {
    MeasuredCost cost = whole(inputs, outputs);
    for (const ParamSpec& spec : specs_) spec.parameter->value.mutable_grad().reset();
    if (block_.can_split_backward()) split(inputs, cost);
    return cost;
  }

 private:
  Tensors leaves(const Tensors& inputs) const { return is_first_ ? inputs : detach_outputs(inputs); }

  static Tensors gradients_of(const Tensors& outputs) {
    Tensors gradients;
    gradients.reserve(outputs.size());
    for (const at::Tensor& output : outputs) {
      gradients.push_back(output.is_floating_point() ? at::empty_like(output) : at::Tensor());
    }
    return gradients;
  }

  MeasuredCost whole(const Tensors& inputs, Tensors& outputs) const {
    MeasuredCost cost;
    Observation seen(parameters_, device_);
    const Tensors in = leaves(inputs);
    add(seen.inputs, in);
    Observer observer(seen);
    Tensors out = without_gaps(block_.forward(in, recorded_.context()));
    cost.traffic.forward = recorded_.take();
    outputs = detach_outputs(out);
    cost.forward_flops = seen.flops;
    cost.output_bytes = bytes_of(out);
    cost.passed_bytes = passed_bytes(in, out);
    cost.saved_bytes = live_bytes_without(seen, out);
    cost.forward_peak_bytes = seen.peak_bytes;
    seen.flops = 0.0;
    seen.peak_bytes = 0;
    const Tensors gradients = gradients_of(out);
    const GraphEnds ends = out;
    out.clear();
    cost.keeps_output = std::any_of(outputs.begin(), outputs.end(),
                                    [](const at::Tensor& x) { return x.is_floating_point() && x.storage().use_count() > 1; });
    run_backward(ends, gradients);
    cost.traffic.backward = recorded_.take();
    cost.backward_flops = seen.flops;
    cost.backward_peak_bytes = seen.peak_bytes;
    return cost;
  }

  /// Repeats the backward in two parts.
  void split(const Tensors& inputs, MeasuredCost& cost) const {
    Tensors in = like(leaves(inputs));
    Observation seen(parameters_, device_);
    add(seen.inputs, in);
    std::vector<Parameter*> trained;
    for (const ParamSpec& spec : specs_) {
      if (!spec.statistic && !spec.frozen) trained.push_back(spec.parameter);
    }
    Observer observer(seen);
    Tensors out = without_gaps(block_.forward(in, recorded_.context())), gradients = gradients_of(out);
    recorded_.take();
    seen.flops = 0.0;
    seen.peak_bytes = 0;
    DeferredGradients deferred = run_backward_input(trained, out, gradients);
    cost.traffic.input = recorded_.take();
    cost.input_flops = seen.flops;
    cost.input_peak_bytes = seen.peak_bytes;
    out.clear();
    gradients.clear();
    const int64_t deferred_bytes = live_bytes_without(seen, take_gradients(in)), of_inputs = bytes_kept_of(in, seen);
    cost.deferred_bytes = deferred_bytes + of_inputs;
    seen.flops = 0.0;
    seen.peak_bytes = 0;
    deferred.run();
    cost.traffic.weight = recorded_.take();
    cost.weight_peak_bytes = seen.peak_bytes + of_inputs;
  }

  Block& block_;
  bool is_first_;
  std::vector<ParamSpec> specs_;
  const Storages& parameters_;
  TargetDevice device_;
  RecordedContext recorded_;
};

/// Measurements shared by identical blocks.
struct Measured {
  MeasuredCost cost;
  Tensors outputs;
};

}  // namespace

std::vector<MeasuredCost> measure_cost(Model& model, const Tensors& inputs, const CostOptions& options, Tensors* outputs) {
  register_meta_kernels();
  const TargetScope scope(options.device);
  make_parameters(model, options);
  const Storages parameters = storages_of_parameters(model);
  std::unordered_map<std::string, Measured> known;
  std::vector<MeasuredCost> costs;
  Tensors activations;
  for (const at::Tensor& input : inputs) {
    activations.push_back(input.is_floating_point() ? input.to(options.weight_dtype) : input);
  }
  for (size_t b = 0; b < model.blocks.size(); ++b) {
    const std::string alike = cost_key(model.blocks[b], activations);
    auto found = alike.empty() ? known.end() : known.find(alike);
    if (found == known.end()) {
      Measured measured;
      measured.cost = BlockMeasurement(model, b, parameters, options).run(activations, measured.outputs);
      found = known.insert_or_assign(alike, std::move(measured)).first;  // empty text: the last block that matches no other
    }
    costs.push_back(found->second.cost);
    activations = found->second.outputs;
  }
  restore_parameters(model);
  if (outputs) *outputs = activations;
  return costs;
}

LossCost measure_loss(const Model& model, const Tensors& outputs, const at::Tensor& target, const CostOptions& options) {
  register_meta_kernels();
  const TargetScope scope(options.device);
  Tensors leaves;
  for (const at::Tensor& output : outputs) leaves.push_back(output.detach().requires_grad_(output.is_floating_point()));
  const Storages none;
  Observation seen(none, options.device);
  add(seen.inputs, leaves);
  add(seen.inputs, {target});
  Observer observer(seen);
  const RecordedContext recorded(options, flops_so_far);
  const LossValue loss = model.loss(widen(leaves), target, recorded.context());
  torch::autograd::backward({loss.sum}, {});
  return {seen.peak_bytes, recorded.take()};
}

}  // namespace weft
