#include <ATen/core/enum_tag.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/checkpoint/weights/exported_file.h"
#include "weft/exported/bind_node.h"
#include "weft/exported/exported_array.h"
#include "weft/exported/exported_block.h"
#include "weft/exported/exported_loss.h"
#include "weft/exported/file_tensors.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/ordered_sums.h"

namespace weft {
namespace {

constexpr const char* kLossCall = "export_loss() of docs/exported.md does";

/// What a program of a loss returns.
enum class Returned {
  elements,  ///< a loss per sample, or several: each counts
  mean,      ///< over the samples
  pair,      ///< a sum and a count
};

class ProgramLoss {
 public:
  ProgramLoss(std::string path, std::shared_ptr<Block> block, size_t outputs, Returned returned)
      : path_(std::move(path)), block_(std::move(block)), outputs_(outputs), returned_(returned) {}

  LossValue operator()(const Tensors& outputs, const at::Tensor& target) const {
    if (outputs.size() < outputs_) {
      throw InputError(fmt::format("{}: it takes {} outputs, the model has {}", path_, outputs_, outputs.size()));
    }
    Tensors inputs(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(outputs_));
    inputs.push_back(target);
    const Tensors made = block_->forward(inputs, {});
    const int64_t samples = target.size(0);
    LossValue value;
    switch (returned_) {
      case Returned::elements:
        value = {sum_of_rows(made[0]), made[0].numel()};
        break;
      case Returned::mean:
        value = {made[0].mul(samples), samples};
        break;
      case Returned::pair:
        value = {made[0], samples};
        put_count(made[1].detach(), value);
    }
    const bool learns = at::GradMode::is_enabled() && outputs.front().requires_grad();
    if (!learns || value.sum.requires_grad()) return value;
    throw InputError(
        fmt::format("{}: its loss does not depend on the model's outputs by operators that have gradients", path_));
  }

 private:
  /// A number of targets, or the sum of their weights.
  static void put_count(const at::Tensor& count, LossValue& value) {
    if (count.is_floating_point()) {
      value.weight = count;
    } else {
      value.count = number_of(count.to(at::kLong));
    }
  }

  std::string path_;
  std::shared_ptr<Block> block_;
  size_t outputs_;
  Returned returned_;
};

/// Compares what the program takes with what the model returns; returns the target.
ExportedArray checked_target(const ExportedGraph& graph, const ExportedGraph& model) {
  const size_t outputs = graph.inputs.size() - 1;  // of none: more than any model has
  if (outputs < 1 || outputs > model.outputs.size()) {
    throw InputError(
        fmt::format("{}: it takes {} inputs; a loss takes the model's {}, then the target", graph.path, graph.inputs.size(),
                    model.outputs.size() == 1 ? "output" : fmt::format("first outputs, of {}", model.outputs.size())));
  }
  for (size_t i = 0; i < outputs; ++i) {
    const ExportedArray taken = array_of(graph, graph.inputs[i], fmt::format("input {}", i), kLossCall);
    const ExportedArray given = array_of(model, model.outputs[i], fmt::format("output {}", i));
    if (taken == given) continue;
    throw InputError(fmt::format("{}: input {} is {}, but the model's output is {}; export the loss with such an example",
                                 graph.path, i, text_of(taken), text_of(given)));
  }
  ExportedArray target = array_of(graph, graph.inputs.back(), "its target", kLossCall);
  if (target.type == at::kFloat || target.type == at::kLong) return target;
  throw InputError(
      fmt::format("{}: its target is {}; targets are float32 or int64: convert them in the loss", graph.path, text_of(target)));
}

Returned checked_outputs(const ExportedGraph& graph) {
  const auto shape = [&](size_t i) -> const ExportedShape& { return graph.shapes.at(graph.outputs[i]); };
  const bool is_float = !graph.outputs.empty() && (shape(0).type == at::kFloat || shape(0).type == at::kDouble);
  if (is_float && graph.outputs.size() == 1) {
    if (shape(0).dims.empty()) return Returned::mean;
    if (!shape(0).dims.front().symbol.empty()) return Returned::elements;
  }
  if (is_float && graph.outputs.size() == 2 && shape(0).dims.empty() && shape(1).dims.empty()) return Returned::pair;
  throw InputError(
      fmt::format("{}: it must return one tensor: a float32 loss per sample or element, or their mean over the "
                  "samples; or two: (sum, count), without dimensions",
                  graph.path));
}

/// A loss is the same in training and evaluations, and on any rank.
void check_operators(const ExportedGraph& graph, const std::vector<BoundNode>& bound) {
  for (size_t i = 0; i < bound.size(); ++i) {
    const ExportedNode& node = graph.nodes[i];
    if (bound[i].handle && bound[i].handle->hasTag(at::Tag::nondeterministic_seeded)) {
      refuse_node(graph, node, "it draws random numbers, which a loss may not");
    }
    for (const auto& [name, argument] : node.inputs) {
      if (is_mode(name)) refuse_node(graph, node, "it depends on training or evaluation, which a loss may not");
    }
  }
}

void check_tensors(const FileTensors& tensors, const std::string& path) {
  using Kind = HeldTensor::Kind;
  for (const std::shared_ptr<HeldTensor>& held : tensors.all()) {
    if (held->kind == Kind::buffer) held->kind = Kind::constant;  // compared by its values, as nothing saves it
    if (held->kind == Kind::constant) continue;
    throw InputError(
        fmt::format("{}: it has the {} '{}', which nothing would train; put it into the model, or export a loss "
                    "without it",
                    path, held->kind == Kind::parameter ? "parameter" : "statistic", shortened(held->name)));
  }
}

}  // namespace

ExportedLoss program_loss(const ExportedGraph& model, const std::string& path) {
  ExportedFile file(path);
  const ExportedGraph graph = read_graph(file.program(), path);
  ExportedArray target = checked_target(graph, model);
  const Returned returned = checked_outputs(graph);
  const FileTensors tensors(graph, file);
  check_tensors(tensors, path);
  const std::vector<BoundNode> bound = bind_nodes(graph);
  check_operators(graph, bound);
  const ValueFlow flow(graph, bound);
  BlockOperations operations =
      block_operations(graph, bound, flow, {.name = "loss", .last = graph.nodes.size()}, graph.inputs, graph.outputs);
  std::vector<std::shared_ptr<HeldTensor>> held;
  for (const auto& [slot, value] : operations.held) held.push_back(tensors.of(value));
  const uint64_t digest = tensors.digest(graph.digest);
  return {
      .loss = ProgramLoss(path, exported_block(std::move(operations), std::move(held), {}), graph.inputs.size() - 1, returned),
      .target = std::move(target),
      .options = {model_option("loss", fmt::format("{:016x}", digest))}};
}

}  // namespace weft
