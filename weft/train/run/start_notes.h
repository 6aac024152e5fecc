// Notes that a run prints when it starts or resumes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/run_board.h"
#include "weft/data/data_note.h"
#include "weft/nn/flat/flat_model.h"
#include "weft/plan/layout/resolve.h"
#include "weft/recipe/build/open_data.h"
#include "weft/train/run/resume.h"
#include "weft/train/trainer/checkpoint_options.h"

namespace weft {

/// Notes on the checkpoint resumed from, for a run of `steps`, after the changes since then.
std::vector<std::string> resume_notes(const Resumed& resumed, int64_t steps);

/// Notes on the weights file started from.
std::vector<std::string> weights_notes(const std::string& path, const WeightsReport& report);

/// Parameters that are not trained; empty: all are.
std::vector<std::string> frozen_notes(const FlatModel& model);

/// Cost of a failure, if these ranks were restarted and resume after `step`; empty: they were not.
std::vector<std::string> restart_notes(const RunBoard& board, int64_t step);

/// Data that data.skip_bad left out when the sets were opened, each once: both parts of one stream report the same.
DataNotes left_out(const Datasets& data);

/// Files among the data that are not read (Dataset::passed_over()): how many, and the first few names; empty: none.
std::vector<std::string> passed_over_notes(const Datasets& data);

/// All notes before the first step: skipped and left-out data, fill ratio of packed windows, the run's lengths in steps, a
/// run.noise_scale with nothing to measure, and a layout.backend that is slow on `device`.
std::vector<std::string> start_notes(const Recipe& recipe, const ResolvedLayout& layout, const Datasets& data,
                                     at::Device device);

}  // namespace weft
