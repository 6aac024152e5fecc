#include "weft/recipe/read/ramp_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace weft {

std::vector<FileKey> ramp_keys(BatchPhase& phase, const std::string& section) {
  constexpr KeyRange counts = {.min = 1.0, .max = 1e9};  // as for other counts
  const bool is_read = section == "batch.ramp";          // false for an existing phase
  return {
      {section, "global", &phase.global_batch, "samples per step in a phase before batch.global", counts, {}, is_read},
      {section, "steps", &phase.steps, "steps with this batch", counts, {}, is_read},
  };
}

std::vector<FileKey> ramp_keys(BatchRamp& ramp) {
  std::vector<FileKey> all;
  for (size_t i = 0; i < ramp.size(); ++i) {
    std::vector<FileKey> keys = ramp_keys(ramp[i], fmt::format("batch.ramp.{}", i + 1));
    std::move(keys.begin(), keys.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace weft
