// What a run tells when it begins, or goes on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/run_board.h"
#include "weft/data/data_note.h"
#include "weft/plan/layout/resolve.h"
#include "weft/recipe/build/open_data.h"
#include "weft/train/run/resume.h"
#include "weft/train/trainer/checkpoint_options.h"

namespace weft {

/// That it goes on from a checkpoint, of a run of `steps`, after what differs from then.
std::vector<std::string> resume_notes(const Resumed& resumed, int64_t steps);

/// That it starts from the weights in a file, and what came of it.
std::vector<std::string> weights_notes(const std::string& path, const WeightsReport& report);

/// What a failure cost, where these ranks were started again and go on after `step`; empty: they were not.
std::vector<std::string> restart_notes(const RunBoard& board, int64_t step);

/// What data.skip_bad left out when the data was opened, each once: the two parts of one stream tell the same.
DataNotes left_out(const Datasets& data);

/// What lies among the data's files and is not read (Dataset::passed_over()): how much, and the first few names; empty:
/// nothing.
std::vector<std::string> passed_over_notes(const Datasets& data);

/// All that is told before the first step: what was passed over and left out, how full windows of packed documents are, what
/// the run's lengths come to in steps, and that run.noise_scale has nothing to measure.
std::vector<std::string> start_notes(const Recipe& recipe, const ResolvedLayout& layout, const Datasets& data);

}  // namespace weft
