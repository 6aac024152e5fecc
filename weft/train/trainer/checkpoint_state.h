// A trainer's state in a checkpoint: the parts a rank writes and reads, and the numbers besides the tensors.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "weft/checkpoint/format/index.h"
#include "weft/checkpoint/format/state_part.h"
#include "weft/checkpoint/storage/data_files.h"
#include "weft/train/trainer/checkpoint_options.h"
#include "weft/train/trainer/owned_state.h"
#include "weft/train/trainer/trainer_state.h"

namespace weft {

/// What the trainer keeps of a block besides its weights: `state`, of Updater::state().
BlockOptimizer kept_of(const TrainerState& trainer, const std::vector<at::Tensor>& state);
/// Visits the parts this rank writes; each is in memory only during its visit.
void for_each_written(TrainerState& trainer, const std::function<void(const StatePart&)>& visit);
/// Visits the parts of parameters and statistics among them, each with its block.
void for_each_written_weight(TrainerState& trainer, const std::function<void(int block, const StatePart&)>& visit);
/// This rank's entries of the index, JSON texts by name.
std::map<std::string, std::string> state_texts(const TrainerState& trainer);

/// Fills this rank's state from a checkpoint, verifying everything it reads. Engine::gather_whole() must follow. Throws
/// InputError for a damaged or mismatched one; the state is then half loaded.
LoadReport load_state(TrainerState& trainer, DataFiles& files, const std::string& checkpoint, const CheckpointIndex& index,
                      const LoadOptions& options);

}  // namespace weft
