#include "weft/nn/cost/measure_cost.h"

#include <ATen/ops/empty_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <set>
#include <string>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include "weft/base/error.h"
#include "weft/nn/cost/activation_bytes.h"
#include "weft/nn/cost/made_parameters.h"
#include "weft/nn/cost/meta_by_running.h"
#include "weft/nn/cost/meta_kernels.h"
#include "weft/nn/cost/observation.h"
#include "weft/nn/cost/output_checks.h"
#include "weft/nn/cost/recorded_group.h"
#include "weft/nn/deferred_gradients.h"
#include "weft/nn/graph.h"
#include "weft/nn/kernels/kernel_table.h"
#include "weft/nn/torch_text.h"

namespace weft {

namespace {

void add(Storages& storages, const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined()) storages.insert(tensor.storage().unsafeGetStorageImpl());
  }
}

/// Bytes of storages made during the observation that are still alive and not among `tensors`.
int64_t live_bytes_without(const Observation& seen, const Tensors& tensors) {
  int64_t bytes = seen.live_bytes();
  std::set<const c10::StorageImpl*> storages;  // views share one
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined()) storages.insert(tensor.storage().unsafeGetStorageImpl());
  }
  for (const c10::StorageImpl* storage : storages) {
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
  for (const ParamSpec& spec : named.block->parameters()) add_tensor(spec.parameter->value);
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
        splits_(splits_backward(block_, options.layout)),
        recorded_(options, flops_so_far) {}

  MeasuredCost run(const Tensors& inputs, Tensors& outputs) const {
    MeasuredCost cost = whole(inputs, outputs);
    for (const ParamSpec& spec : block_.parameters()) {
      if (spec.parameter->partial && !spec.statistic && !spec.frozen) cost.partial_numel += spec.parameter->value.numel();
    }
    Tensors again;
    MeasuredCost adding = whole(inputs, again);
    cost.launches.adding_backward = std::move(adding.launches.backward);
    cost.operators.of(BlockPass::adding_backward) = std::move(adding.operators.of(BlockPass::backward));
    clear_gradients();
    if (!splits_) return cost;
    cost = with_split(inputs, std::move(cost));
    adding = with_split(inputs, cost);
    cost.launches.adding_weight = std::move(adding.launches.weight);
    cost.operators.of(BlockPass::adding_weight) = std::move(adding.operators.of(BlockPass::weight));
    return cost;
  }

  /// What a pass gives the device.
  struct Given {
    LaunchesByKernel launches;
    PassOperators operators;
  };

  /// A forward while another's graph lives, as of a further block of the same kind: both share what SharedRotation holds.
  Given next_forward(const Tensors& inputs) const {
    Observation seen(parameters_, device_);
    const Observer observer(seen);
    const Tensors graph = block_.forward(leaves(inputs), recorded_.context());
    take(seen);
    without_gaps(block_.forward(leaves(inputs), recorded_.context()));
    recorded_.take();
    return take(seen);
  }

 private:
  static Given take(Observation& seen) { return {std::exchange(seen.launches, {}), std::exchange(seen.operators, {})}; }

  /// Puts what was given to a pass into the cost.
  static void put(Given given, LaunchesByKernel& launches, BlockPass pass, MeasuredCost& cost) {
    launches = std::move(given.launches);
    cost.operators.of(pass) = std::move(given.operators);
  }

  void clear_gradients() const {
    for (const ParamSpec& spec : specs_) spec.parameter->value.mutable_grad().reset();
  }

  /// Does what FlatModel::settle_gradients() does after a backward that a micro-batch before the last one adds to.
  Given with_settled(Given given) const {
    int64_t copied = 0;
    for (const ParamSpec& spec : specs_) {
      if (spec.statistic || spec.frozen) continue;
      at::Tensor& gradient = spec.parameter->value.mutable_grad();
      const at::Tensor& place = spec.parameter->gradient;
      if (!gradient.defined()) {
        ++given.launches["aten::zero_"];
        add_operator(given.operators, {.bytes = bytes_of({place}), .elements = place.numel()});
      }
      if (gradient.defined() && !gradient.is_alias_of(place)) copied += bytes_of({gradient, place});
      gradient = place;
    }
    if (copied == 0) return given;
    ++given.launches["aten::_foreach_copy_"];
    add_operator(given.operators, {.bytes = copied});
    return given;
  }

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
    put(take(seen), cost.launches.forward, BlockPass::forward, cost);
    seen.flops = 0.0;
    seen.peak_bytes = 0;
    cost.has_gradient = std::any_of(out.begin(), out.end(), [](const at::Tensor& x) { return x.requires_grad(); });
    const Tensors gradients = gradients_of(out);
    const GraphEnds ends = out;
    out.clear();
    cost.keeps_output = std::any_of(outputs.begin(), outputs.end(),
                                    [](const at::Tensor& x) { return x.is_floating_point() && x.storage().use_count() > 1; });
    run_backward(ends, gradients);
    cost.traffic.backward = recorded_.take();
    cost.backward_flops = seen.flops;
    cost.backward_peak_bytes = seen.peak_bytes;
    put(with_settled(take(seen)), cost.launches.backward, BlockPass::backward, cost);
    return cost;
  }

  /// Repeats the backward in two parts; returns the cost with theirs.
  MeasuredCost with_split(const Tensors& inputs, MeasuredCost cost) const {
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
    take(seen);
    seen.flops = 0.0;
    seen.peak_bytes = 0;
    DeferredGradients deferred = run_backward_input(trained, out, gradients);
    cost.traffic.input = recorded_.take();
    cost.input_flops = seen.flops;
    cost.input_peak_bytes = seen.peak_bytes;
    put(take(seen), cost.launches.input, BlockPass::input, cost);
    out.clear();
    gradients.clear();
    const int64_t deferred_bytes = live_bytes_without(seen, take_gradients(in)), of_inputs = bytes_kept_of(in, seen);
    cost.deferred_bytes = deferred_bytes + of_inputs;
    seen.flops = 0.0;
    seen.peak_bytes = 0;
    deferred.run();
    cost.traffic.weight = recorded_.take();
    cost.weight_peak_bytes = seen.peak_bytes + of_inputs;
    put(with_settled(take(seen)), cost.launches.weight, BlockPass::weight, cost);
    return cost;
  }

  Block& block_;
  bool is_first_;
  std::vector<ParamSpec> specs_;
  const Storages& parameters_;
  TargetDevice device_;
  bool splits_;
  RecordedContext recorded_;
};

/// Adds what is measured to LibTorch's errors, which do not say where. `tries`: how many operators may lack a kernel.
template <class Call>
void measured_as(const std::string& what, const Call& call, int tries = 100) {
  try {
    call();
  } catch (const c10::Error& error) {
    std::string text = torch_text(error);
    if (text.find("Meta kernel") != std::string::npos) {  // it advises authors of operators
      text = text.substr(0, std::min(text.find(": "), text.find('.')));
      if (tries > 0 && register_meta_by_running(text)) return measured_as(what, call, tries - 1);
      text = fmt::format("LibTorch cannot tell shapes of {} without data; use another", text);
    }
    throw InputError(fmt::format("model: {} cannot be measured: {}", what, text));
  }
}

/// Measurements shared by identical blocks.
struct Measured {
  MeasuredCost cost;
  Tensors outputs;
  BlockMeasurement::Given next_forward;
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
    const bool is_new = found == known.end();
    if (is_new) {
      Measured measured;
      const BlockMeasurement block(model, b, parameters, options);
      measured_as(fmt::format("block '{}'", model.blocks[b].name), [&] {
        measured.cost = block.run(activations, measured.outputs);
        if (!alike.empty()) measured.next_forward = block.next_forward(activations);
      });
      found = known.insert_or_assign(alike, std::move(measured)).first;  // empty text: the last block that matches no other
    }
    costs.push_back(found->second.cost);
    if (!is_new) {
      costs.back().launches.forward = found->second.next_forward.launches;
      costs.back().operators.of(BlockPass::forward) = found->second.next_forward.operators;
    }
    activations = found->second.outputs;
    check_outputs(model, b, activations, costs.back().has_gradient);
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
  LossCost cost;
  measured_as("the loss", [&] {
    const Storages none;
    Observation seen(none, options.device);
    add(seen.inputs, leaves);
    add(seen.inputs, {target});
    Observer observer(seen);
    const RecordedContext recorded(options, flops_so_far);
    const LossValue loss = model.loss(model.loss.takes_any_type() ? leaves : widen(leaves), target, recorded.context());
    torch::autograd::backward({loss.sum}, {});
    cost = {seen.peak_bytes, recorded.take(), std::move(seen.launches), std::move(seen.operators)};
  });
  return cost;
}

}  // namespace weft
