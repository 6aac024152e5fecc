// pipeline_text: a search result as text, for other ranks.
#pragma once

#include <string>

#include "weft/plan/layout/layout.h"

namespace weft {

/// Writes a search result: the first block of each stage, and the schedule's name and tasks unless the recipe names it.
std::string pipeline_text(const PipelineOptions& pipeline, bool names_schedule);

/// Reads the pipeline that pipeline_text() wrote; without a schedule if the recipe names it. Throws InputError for other text.
PipelineOptions read_pipeline(std::string_view text);

}  // namespace weft
