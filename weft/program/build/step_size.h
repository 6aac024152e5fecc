// step_size: estimates a step's instruction count before the step is built, and limits it.
//
// While a step is built, verified and simulated, an instruction takes some 200 bytes and a few microseconds: the limit keeps a
// plan within 2 GB and about 20 s.
#pragma once

#include <cstdint>
#include <string>

#include "weft/program/build/step_layout.h"
#include "weft/program/program.h"

namespace weft {

constexpr int64_t kMostInstructions = 6'000'000;  ///< limit over all lists of a step
constexpr int64_t kMostPlaces = 12'000'000;       ///< limit on pipeline ranks x blocks

/// Size of a schedule, before it is made. The defaults are a single rank's.
struct ScheduleSize {
  int64_t stages = 1;                ///< stages of the whole pipeline
  bool splits_backward = false;      ///< splits backward into backward_input and backward_weight
  int64_t whole_blocks = 0;          ///< with splits_backward: number of blocks whose backward cannot be split
  int64_t fewest_micro_batches = 1;  ///< minimum number of micro-batches
  int64_t unit = 1;                  ///< the number of micro-batches must be a multiple of this
};

/// Returns the number of blocks whose backward cannot be split.
int64_t whole_blocks(const ModelCost& model);

/// Advice for errors when a rank may have at most `most` micro-batches: use that many, or reduce what requires more.
std::string advice_for_at_most(int64_t most, int64_t slots, const ScheduleSize& schedule);

/// Approximate instruction count of all pipeline ranks' lists, for a model of `blocks` blocks. Ignores layout.schedule.
double count_instructions(int64_t blocks, const StepLayout& layout, const ScheduleSize& schedule);

/// True if a step has at most kMostInstructions, and its blocks and ranks at most kMostPlaces.
bool is_countable(int64_t blocks, const StepLayout& layout, const ScheduleSize& schedule);

/// Throws InputError with advice if is_countable() is false.
void check_step_size(int64_t blocks, const StepLayout& layout, const ScheduleSize& schedule);

}  // namespace weft
