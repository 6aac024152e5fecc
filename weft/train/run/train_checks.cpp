// What a launcher checks of a run before its ranks start.
#include "weft/base/shipped_files.h"
#include "weft/checkpoint/atomic_file.h"
#include "weft/plan/advice/auto_layout.h"
#include "weft/recipe/toml/hardware_file.h"
#include "weft/train/run/trace_file.h"
#include "weft/train/run/train.h"

namespace weft {

void check_files(const Recipe& recipe, const TrainOptions& options) {
  for (const std::string& path : {options.save_path, options.trace_path}) {
    if (!path.empty()) check_writable(path);
  }
  if (!recipe.run.hardware.empty()) load_hardware(shipped_or_own("hardware", recipe.run.hardware));
}

void check_options(const Recipe& recipe, const TrainOptions& options) {
  check_automatic(recipe);
  if (recipe.run.steps) check_traced_step(options.trace_step, *recipe.run.steps);
}

}  // namespace weft
