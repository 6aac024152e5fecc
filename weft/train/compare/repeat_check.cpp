#include "weft/train/compare/repeat_check.h"

#include <string>
#include <utility>
#include <vector>

#include "weft/nn/keyed_generators.h"
#include "weft/train/trainer/rank_batch.h"

namespace weft {

/// Records of the blocks' calls in the first run, in order.
struct RepeatCheck::Notes {
  struct Call {
    std::string block;
    uint64_t inputs, outputs;
  };

  void add(const std::string& block, uint64_t inputs, uint64_t outputs) {
    if (!again) return calls.push_back({block, inputs, outputs});
    if (!found.what.empty() || place >= calls.size()) return;
    const Call& before = calls[place++];
    if (before.block != block || (before.inputs == inputs && before.outputs == outputs)) return;
    // If the first difference is in inputs, it is in the data: inputs of later blocks are outputs of earlier ones.
    found = {.what = before.inputs == inputs ? "block '" + block + "'" : "the data", .at_once = false};
  }

  std::vector<Call> calls;
  size_t place = 0;    ///< index of the next call in a later run
  bool again = false;  ///< in a later run
  NotRepeated found;
};

class RepeatCheck::Watched : public Block, public HasRandomName {
 public:
  Watched(const NamedBlock& named, at::Device device, std::shared_ptr<Notes> notes)
      : block_(named.block), name_(named.name), device_(device), notes_(std::move(notes)) {}

  Tensors forward(const Tensors& inputs, const Context& context) override {
    if (!context.training || context.step > 0) return block_->forward(inputs, context);
    const uint64_t in = hash_of(inputs);
    const GeneratorState generators(device_);
    const std::vector<at::Tensor> before = statistics();
    Tensors outputs = block_->forward(inputs, context);
    const std::vector<at::Tensor> after = statistics();
    set_statistics(before);
    generators.restore();
    const uint64_t first = hash_of(outputs), again = hash_of(block_->forward(inputs, context));
    set_statistics(after);
    if (first != again && notes_->found.what.empty()) notes_->found = {.what = "block '" + name_ + "'", .at_once = true};
    notes_->add(name_, in, first);
    return outputs;
  }
  std::vector<ParamSpec> parameters() override { return block_->parameters(); }
  std::vector<BufferSpec> buffers() override { return block_->buffers(); }
  bool can_recompute_parts() const override { return block_->can_recompute_parts(); }
  bool can_split_backward() const override { return block_->can_split_backward(); }
  bool can_chunk_loss() const override { return block_->can_chunk_loss(); }
  bool can_join_batches() const override { return block_->can_join_batches(); }
  bool always_uses_all() const override { return block_->always_uses_all(); }
  std::string random_name() const override { return random_name_of(*block_); }

 private:
  std::vector<at::Tensor> statistics() {
    std::vector<at::Tensor> values;
    for (const ParamSpec& spec : block_->parameters()) {
      if (spec.statistic) values.push_back(spec.parameter->value.detach().clone());
    }
    return values;
  }
  /// Bypasses autograd, which would otherwise consider the parameters in the same buffer modified.
  void set_statistics(const std::vector<at::Tensor>& values) {
    size_t i = 0;
    for (const ParamSpec& spec : block_->parameters()) {
      if (spec.statistic) spec.parameter->value.variable_data().copy_(values[i++]);
    }
  }

  std::shared_ptr<Block> block_;
  std::string name_;
  at::Device device_;
  std::shared_ptr<Notes> notes_;
};

RepeatCheck::RepeatCheck() : notes_(std::make_shared<Notes>()) {}
RepeatCheck::~RepeatCheck() = default;

Model RepeatCheck::watch(Model model, at::Device device) {
  notes_->again = !notes_->calls.empty();
  notes_->place = 0;
  for (NamedBlock& named : model.blocks) named.block = std::make_shared<Watched>(named, device, notes_);
  return model;
}

NotRepeated RepeatCheck::found() const { return notes_->found; }

}  // namespace weft
