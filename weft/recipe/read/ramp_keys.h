// The keys of a phase of a batch ramp: [[batch.ramp]].
#pragma once

#include <string>
#include <vector>

#include "weft/base/batch_sizes.h"
#include "weft/recipe/toml/toml_schema.h"

namespace weft {

/// With targets in `phase`; `section` is "batch.ramp" as it is read, or "batch.ramp.1" of the first there is.
std::vector<FileKey> ramp_keys(BatchPhase& phase, const std::string& section);

/// Those of all phases that there are.
std::vector<FileKey> ramp_keys(BatchRamp& ramp);

}  // namespace weft
