#include "weft/train/save/old_checkpoints.h"

#include <memory>
#include <vector>

#include "weft/base/storage_error.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/checkpoint/storage/open_storage.h"

namespace weft {

OldCheckpoints::Known OldCheckpoints::read(Storage& storage, int64_t step) {
  Known known{.checkpoint = {.step = step, .clock = {.steps = static_cast<double>(step)}, .loss = {}, .accuracy = {}}};
  const std::string name = checkpoint_name(step);
  try {
    const auto text = run_state_in(read_checkpoint(storage, name).texts);
    if (!text) return known;
    known.state = parse_run_state(*text, storage.full(name));
    known.checkpoint.clock = known.state.clock;
    if (const auto& evaluation = known.state.evaluation; evaluation && evaluation->step == step) {
      known.checkpoint.loss = evaluation->loss;
      known.checkpoint.accuracy = evaluation->accuracy;
    }
  } catch (const DamageError&) {
    // Only its step is known.
  }
  return known;
}

void OldCheckpoints::remove(int64_t saved, std::optional<int64_t> spared) {
  if (rules_.newest == 0) return;
  const std::unique_ptr<Storage> storage = open_storage(folder_);
  known_.erase(saved);  // an earlier one of that step was replaced
  std::map<int64_t, Known> there;
  for (const int64_t step : complete_checkpoints(*storage)) {
    if (step > saved) break;
    const auto found = known_.find(step);
    there.emplace(step, found != known_.end() ? found->second : read(*storage, step));
  }
  known_ = there;
  std::vector<KeptCheckpoint> checkpoints;
  for (auto& [step, known] : there) {
    const RunState& newest = there.rbegin()->second.state;
    const std::optional<EvaluationReport>& now = newest.evaluation ? newest.evaluation : known.state.evaluation;
    if (now && !evaluations_compare(known.state, newest, now->averaged)) {
      known.checkpoint.loss = known.checkpoint.accuracy = std::nullopt;
    }
    checkpoints.push_back(known.checkpoint);
  }
  for (const int64_t step : checkpoints_to_remove(checkpoints, rules_)) {
    if (step != spared) remove_checkpoint(*storage, checkpoint_name(step));
  }
}

}  // namespace weft
