// Updates of a step, and the whole gradients that they need.
#include <ATen/ops/empty.h>

#include <vector>

#include "weft/engine/step_run.h"

namespace weft {

/// Both tensors outlive the collective: the updater keeps the whole until the update, which waits for it.
Work StepRun::gather_gradients(const Instruction& instruction) {
  const bool is_gated = numbers_.defined();
  if (!is_gated) settle_loss();
  if (result_.skipped) return {};
  const int block = instruction.first;
  join_uses(block);
  const at::Tensor part = is_gated ? updater_.part_of_gradients_gated(block, results.gate(), values_.rate())
                                   : updater_.part_of_gradients(block, divisor_);
  const at::Tensor whole = at::empty({model_.flat(block).numel}, part.options());
  updater_.take_gradients(block, whole);
  return group_of(instruction).all_gather(whole, part, "gradients of " + model_.model().blocks[block].name + " for its update");
}

/// On a device updates that follow one another are one, launched together: a norm before them has waited for all gradients.
void StepRun::update(int index) {
  if (!numbers_.defined()) settle_loss();
  if (index < updated_until_) return;
  updated_until_ = index + 1;
  const auto is_update = [this](int i) { return i < static_cast<int>(list_->size()) && (*list_)[i].op == Op::update; };
  while (on_device() && is_update(updated_until_)) wait_for((*list_)[updated_until_++]);
  if (result_.skipped) return;
  std::vector<int> blocks;
  for (int i = index; i < updated_until_; ++i) {
    for (int block = (*list_)[i].first; block < (*list_)[i].last; ++block) blocks.push_back(block);
  }
  for (const int block : blocks) {
    join_uses(block);
    weights.mark_changed(block);  // even if an update fails: with what it has changed of the optimizer's state
  }
  if (checks) checks->begin_update(blocks.front());
  numbers_.defined() ? updater_.update_gated(blocks, results.gate(), values_.rate()) : updater_.update_all(blocks, divisor_);
  for (const int block : blocks) finish_update(block);
  for (const int block : blocks) {
    if (checks) checks->end_update(block);
  }
}

void StepRun::finish_update(int block) {
  const bool is_gated = numbers_.defined();
  const GroupRange statistics = model_.statistics_range(block);
  if (statistics.begin < statistics.end) {
    if (is_gated && !refusal_.defined()) refusal_ = results.gate()[1].to(at::kBool);
    model_.apply_statistics(block, options_.all_micro_batches, refusal_);
    model_.copy_master_to_shard(block);
  }
  is_gated ? updater_.average_gated(block, results.gate(), values_.rate()) : updater_.average(block);
}

}  // namespace weft
