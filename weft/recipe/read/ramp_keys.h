// The keys of a phase of a batch ramp: [[batch.ramp]].
#pragma once

#include <string>
#include <vector>

#include "weft/base/batch_sizes.h"
#include "weft/recipe/toml/toml_schema.h"

namespace weft {

/// Keys with targets in `phase`; `section` is "batch.ramp" while reading, or "batch.ramp.1" for the first existing phase.
std::vector<FileKey> ramp_keys(BatchPhase& phase, const std::string& section);

/// Keys of all existing phases.
std::vector<FileKey> ramp_keys(BatchRamp& ramp);

}  // namespace weft
