// A trainer's state as a checkpoint has it, and back: what a rank writes, what it reads, and the numbers beside the tensors.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "weft/checkpoint/format/index.h"
#include "weft/checkpoint/format/state_part.h"
#include "weft/checkpoint/storage/data_files.h"
#include "weft/train/trainer/checkpoint_options.h"
#include "weft/train/trainer/trainer_state.h"

namespace weft {

/// Visits what this rank writes of the state; each part is in memory only while it is visited.
void for_each_written(TrainerState& trainer, const std::function<void(const StatePart&)>& visit);
/// The entries of the index that this rank knows, JSON texts by name.
std::map<std::string, std::string> state_texts(const TrainerState& trainer);

/// Fills this rank's state from a checkpoint, and checks all that it reads. Engine::gather_whole() must follow. Throws
/// InputError for one that is damaged or of something else; the state is half loaded then.
LoadReport load_state(TrainerState& trainer, DataFiles& files, const std::string& checkpoint, const CheckpointIndex& index,
                      const LoadOptions& options);

}  // namespace weft
