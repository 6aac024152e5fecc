// What a launcher checks of a run before its ranks start.
#include <cstdint>
#include <limits>

#include "weft/base/shipped_files.h"
#include "weft/checkpoint/atomic_file.h"
#include "weft/checkpoint/storage/open_storage.h"
#include "weft/plan/advice/auto_layout.h"
#include "weft/recipe/read/recipe_paths.h"
#include "weft/recipe/toml/hardware_file.h"
#include "weft/report/records/record_files.h"
#include "weft/train/run/trace_file.h"
#include "weft/train/run/traced_steps.h"
#include "weft/train/run/train.h"

namespace weft {

void check_files(const Recipe& recipe, const TrainOptions& options) {
  for (const std::string& path : {options.save_path, options.trace_path}) {
    if (!path.empty()) check_writable(path);
  }
  if (const std::string folder = records_folder(recipe); !folder.empty()) check_record_folder(folder);
  if (is_url(records_place(recipe))) open_storage(records_place(recipe));  // throws for what it does not know
  if (options.profile_steps) check_record_folder(profile_folder(recipe));
  if (!recipe.run.hardware.empty()) load_hardware(shipped_or_own("hardware", recipe.run.hardware));
}

void check_options(const Recipe& recipe, const TrainOptions& options) {
  check_automatic(recipe);
  const int64_t steps = recipe.run.steps.value_or(std::numeric_limits<int64_t>::max());
  check_traced_step(options.trace_step, steps);
  check_profiled_steps(options.profile_steps, steps);
}

}  // namespace weft
