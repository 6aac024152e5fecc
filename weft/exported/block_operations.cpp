#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/exported/exported_block.h"

namespace weft {
namespace {

/// Collects the operations of a block: the calls in its range, and before each the numbers that it needs, which depend on sizes
/// alone and are computed anew in each block.
class OperationCollector {
 public:
  OperationCollector(const ExportedGraph& graph, const std::vector<BoundNode>& bound, const ValueFlow& flow,
                     const SplitFlow& splits)
      : graph_(graph), bound_(bound), flow_(flow), splits_(splits) {
    for (const ExportedState& state : graph.states) held_.insert(state.value);
    if (!graph.inputs.empty()) batch_ = batch_symbol();
  }

  BlockOperations collect(const NodeRange& range, const std::vector<std::string>& inputs,
                          const std::vector<std::string>& outputs) {
    block_.path = graph_.path;
    block_.name = range.name;
    const std::set<std::string> changed = flow_.changed(range.first, range.last);
    for (const std::string& input : inputs) {
      block_.inputs.push_back(new_slot(input));
      block_.copied.push_back(changed.count(input) > 0);
    }
    find_samples(inputs);
    if (range.first == 0 && !graph_.guards.empty()) block_.guards = std::make_shared<SizeGuards>(graph_.path, graph_.guards);
    for (size_t i = range.first; i < range.last; ++i) {
      if (bound_[i].kind == BoundNode::Kind::call) add_node(i);
    }
    for (const std::string& output : outputs) block_.outputs.push_back(slot_of(output));
    check_parts(range, outputs);
    free_early();
    return std::move(block_);
  }

 private:
  std::string batch_symbol() const {
    const auto shape = graph_.shapes.find(graph_.inputs.front());
    return shape == graph_.shapes.end() || shape->second.dims.empty() ? "" : shape->second.dims.front().symbol;
  }

  [[noreturn]] void fail(const std::string& text) const { throw InputError(fmt::format("{}: {}", graph_.path, text)); }

  /// Blocks pass whole values on; the last may return parts of the logits.
  void check_parts(const NodeRange& range, const std::vector<std::string>& outputs) {
    for (const std::string& output : outputs) {
      if (splits_.form(output) == nullptr) continue;
      block_.split_output = splits_.layer_of(output);
      if (range.last == graph_.nodes.size()) return;
      fail(
          fmt::format("block '{}' would pass on '{}', which layer '{}' divides over the ranks of tp; cut elsewhere "
                      "(model.blocks), or leave that layer whole",
                      block_.name, shortened(output), shortened(block_.split_output)));
    }
  }

  int new_slot(const std::string& value) { return slots_[value] = block_.num_slots++; }

  int slot_of(const std::string& value) {
    if (const auto found = slots_.find(value); found != slots_.end()) return found->second;
    if (held_.count(value) > 0) {
      block_.held.emplace_back(new_slot(value), value);
      return block_.held.back().first;
    }
    const int maker = flow_.maker(value);
    constexpr int kDeepest = 1000;
    const bool is_number = maker >= 0 && bound_[maker].kind != BoundNode::Kind::call;
    if (!is_number || graph_.shapes.count(value) > 0 || maker >= node_ || depth_ > kDeepest) {
      fail(fmt::format("'{}' is read before it is made, or in another block as a number; export it again", shortened(value)));
    }
    const int outer = std::exchange(node_, maker);
    ++depth_;
    bound_[maker].kind == BoundNode::Kind::size ? add_size(maker) : add_node(maker);
    --depth_;
    node_ = outer;
    return slots_.at(value);
  }

  void add_node(size_t i) {
    const ExportedNode& node = graph_.nodes[i];
    node_ = static_cast<int>(i);
    Operation operation = make_operation(graph_, node, bound_[i], [this](const std::string& value) { return slot_of(value); });
    const auto split = splits_.calls().find(i);
    if (split != splits_.calls().end()) operation.split = split->second;
    for (const std::string& output : node.outputs) operation.outputs.push_back(output.empty() ? -1 : new_slot(output));
    block_.operations.push_back(std::move(operation));
  }

  /// A size is fixed, or a multiple of the samples.
  void add_size(size_t i) {
    const ExportedNode& node = graph_.nodes[i];
    const bool has_both =
        node.inputs.size() == 2 && !node.inputs[0].second.values.empty() && !node.inputs[1].second.integers.empty();
    const auto shape = graph_.shapes.find(has_both ? node.inputs[0].second.values.front() : "");
    if (shape == graph_.shapes.end() || node.outputs.empty())
      fail(fmt::format("'{}' is the size of no tensor; export it again", shortened(node.name)));
    const auto& dims = shape->second.dims;
    const int64_t given = node.inputs[1].second.integers.front(), at = given < 0 ? given + std::ssize(dims) : given;
    if (at < 0 || at >= std::ssize(dims))
      fail(fmt::format("'{}' is the size of no dimension; export it again", shortened(node.name)));
    const ExportedDim& dim = dims[static_cast<size_t>(at)];
    Operation operation{.name = node.name, .target = node.target, .factor = dim.factor};
    if (dim.symbol.empty()) {
      operation.kind = Operation::Kind::arithmetic;
      operation.target = "torch.sym_int";
      operation.operands = {{.constant = dim.size}};
    } else if (dim.factor > 0 && dim.symbol == batch_) {
      operation.kind = Operation::Kind::samples;
      if (block_.samples_input < 0)
        fail(fmt::format("block '{}' needs the number of samples, which none of its inputs shows; cut elsewhere (model.blocks)",
                         block_.name));
    } else {
      fail(fmt::format("'{}' depends on sizes as in {}; export it with a batch alone that varies: {}", shortened(node.name),
                       shortened(dim.symbol), kExportCall));
    }
    operation.outputs = {new_slot(node.outputs.front())};
    block_.operations.push_back(std::move(operation));
  }

  void find_samples(const std::vector<std::string>& inputs) {
    for (size_t i = 0; i < inputs.size() && block_.samples_input < 0; ++i) {
      const auto& dims = graph_.shapes.at(inputs[i]).dims;
      for (size_t d = 0; d < dims.size() && block_.samples_input < 0; ++d) {
        if (dims[d].factor < 1 || dims[d].symbol != batch_) continue;
        block_.samples_input = static_cast<int>(i);
        block_.samples_dim = static_cast<int64_t>(d);
        block_.samples_factor = dims[d].factor;
      }
    }
  }

  /// Values go as soon as nothing reads them, as in Python; backward keeps what it needs.
  void free_early() {
    std::vector<bool> is_read(static_cast<size_t>(block_.num_slots), false);
    for (const int slot : block_.outputs) is_read[slot] = true;
    for (auto operation = block_.operations.rbegin(); operation != block_.operations.rend(); ++operation) {
      for (int& output : operation->outputs) {
        if (output >= 0 && !is_read[output]) output = -1;
      }
      for (const Operand& operand : operation->operands) {
        for (const int slot : operand.slots) {
          if (slot < 0 || is_read[slot]) continue;
          is_read[slot] = true;
          operation->frees.push_back(slot);
        }
      }
    }
  }

  const ExportedGraph& graph_;
  const std::vector<BoundNode>& bound_;
  const ValueFlow& flow_;
  const SplitFlow& splits_;
  std::set<std::string> held_;
  std::string batch_;
  std::map<std::string, int> slots_;
  BlockOperations block_;
  int node_ = -1;  ///< being added
  int depth_ = 0;
};

}  // namespace

BlockOperations block_operations(const ExportedGraph& graph, const std::vector<BoundNode>& bound, const ValueFlow& flow,
                                 const SplitFlow& splits, const NodeRange& range, const std::vector<std::string>& inputs,
                                 const std::vector<std::string>& outputs) {
  return OperationCollector(graph, bound, flow, splits).collect(range, inputs, outputs);
}

}  // namespace weft
