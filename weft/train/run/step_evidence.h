// step_evidence: what a run keeps of a step that was not finite: FOLDER/failed/step-00000412/.
//
// finding.json says what was found, on all ranks. batch.safetensors has the micro-batch of the rank that was first: input.0,
// input.1, ..., target. The checkpoint beside them is the state before the step; there is none if save.folder has one of the
// same step, if ranks of several hosts share no folder, or if that state is itself not finite. One failed step is kept: a later
// one in the same folder replaces it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/comm/world.h"
#include "weft/data/dataset.h"
#include "weft/engine/finding.h"
#include "weft/recipe/recipe.h"
#include "weft/train/trainer/trainer.h"

namespace weft {

inline constexpr const char* kFailedFolder = "failed";
inline constexpr const char* kFindingFile = "finding.json";
inline constexpr const char* kBatchFile = "batch.safetensors";

/// "FOLDER/failed"; empty if the run keeps no records.
std::string failed_folder(const Recipe& recipe);

/// Keeps it. Returns what the error's text says of it: "evidence in runs/a/failed/step-00000412", or why it could not be kept;
/// empty without a folder. `saved_step`: of the newest checkpoint in save.folder. Collective over the world; throws nothing
/// that a full disk or a failed save causes.
std::string keep_evidence(const Recipe& recipe, const World& world, Trainer& trainer, const BadStep& bad,
                          const std::vector<Batch>& taken, std::optional<int64_t> saved_step);

/// Names samples by their positions in the run: "sample 77123 of the data".
std::function<std::string(int64_t position)> sample_names(const std::shared_ptr<const Dataset>& data, uint64_t seed);

/// The finding as details of an event: "finding.block" and the like.
std::vector<std::pair<std::string, std::string>> finding_details(const BadStep& bad);

}  // namespace weft
