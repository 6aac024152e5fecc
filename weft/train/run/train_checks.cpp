// What a launcher checks of a run before its ranks start.
#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/base/shipped_files.h"
#include "weft/checkpoint/atomic_file.h"
#include "weft/recipe/toml/hardware_file.h"
#include "weft/train/run/trace_file.h"
#include "weft/train/run/train.h"

namespace weft {

void check_files(const TrainOptions& options) {
  for (const std::string& path : {options.save_path, options.trace_path}) {
    if (!path.empty()) check_writable(path);
  }
}

void check_options(const Recipe& recipe, const TrainOptions& options) {
  if (recipe.layout.style == "auto" && recipe.run.hardware.empty()) {
    throw InputError(
        fmt::format("{}: layout = \"auto\" is planned by a hardware file, and run.hardware names none; weft calibrate "
                    "writes one of this machine",
                    recipe.path));
  }
  if (!recipe.run.hardware.empty()) load_hardware(shipped_or_own("hardware", recipe.run.hardware));
  if (recipe.run.steps) check_traced_step(options.trace_step, *recipe.run.steps);
}

}  // namespace weft
