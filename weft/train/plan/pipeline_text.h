// pipeline_text: a pipeline that was searched, as text for other ranks.
#pragma once

#include <string>

#include "weft/train/plan/layout.h"

namespace weft {

/// The name of the pipeline's schedule, the first block of each stage, and the schedule as csv_schedule() reads it.
std::string pipeline_text(const PipelineOptions& pipeline);

/// The pipeline that pipeline_text() wrote. Throws InputError for another text.
PipelineOptions read_pipeline(std::string_view text);

}  // namespace weft
