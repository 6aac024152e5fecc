// pipeline_text: a pipeline that was searched, as text for other ranks.
#pragma once

#include <string>

#include "weft/plan/layout/layout.h"

namespace weft {

/// What a search found: the first block of each stage, and the schedule's name and tasks unless the recipe names it.
std::string pipeline_text(const PipelineOptions& pipeline, bool names_schedule);

/// The pipeline that pipeline_text() wrote; without a schedule where the recipe names it. Throws InputError for another text.
PipelineOptions read_pipeline(std::string_view text);

}  // namespace weft
