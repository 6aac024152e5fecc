// What a launcher checks of a run before its ranks start.
#include "weft/checkpoint/atomic_file.h"
#include "weft/train/run/trace_file.h"
#include "weft/train/run/train.h"

namespace weft {

void check_files(const TrainOptions& options) {
  for (const std::string& path : {options.save_path, options.trace_path}) {
    if (!path.empty()) check_writable(path);
  }
}

void check_options(const Recipe& recipe, const TrainOptions& options) {
  if (recipe.run.steps) check_traced_step(options.trace_step, *recipe.run.steps);
}

}  // namespace weft
