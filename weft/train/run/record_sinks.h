// record_sinks: where a run's recipe has its records kept.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/recipe/recipe.h"
#include "weft/report/records/record_sink.h"

namespace weft {

/// Opens the sinks of run.folder, or save.folder: files on disk, or uploads. One that cannot be opened is left out, which
/// `note` is told; empty if another run has the folder. `steps_done`: of the run, when this process takes over.
std::vector<std::unique_ptr<RecordSink>> record_sinks(const Recipe& recipe, int64_t steps_done,
                                                      const std::function<void(const std::string&)>& note);

}  // namespace weft
