// step_size: how many instructions a step has, told before any of them is made, and how many weft plans.
//
// An instruction takes some 200 bytes while a step is built, verified and simulated, and some microseconds: the limit keeps a
// plan within 2 GB and about 20 s.
#pragma once

#include <cstdint>
#include <string>

#include "weft/program/build/step_layout.h"
#include "weft/program/program.h"

namespace weft {

constexpr int64_t kMostInstructions = 6'000'000;  ///< in all lists of a step
constexpr int64_t kMostPlaces = 12'000'000;       ///< pipeline ranks x blocks

/// What a schedule says of a step's size, before it is made. As it is unless told: a single rank's.
struct ScheduleSize {
  int64_t stages = 1;                ///< of the whole pipeline
  bool splits_backward = false;      ///< into backward_input and backward_weight
  int64_t whole_blocks = 0;          ///< of a split backward: those whose own cannot be split
  int64_t fewest_micro_batches = 1;  ///< that it goes with
  int64_t unit = 1;                  ///< it goes with multiples of so many micro-batches
};

/// How many blocks have a backward that cannot be split.
int64_t whole_blocks(const ModelCost& model);

/// Advice for errors where a rank may have at most `most` micro-batches: have so many, or less of what asks for more than that.
std::string advice_for_at_most(int64_t most, int64_t slots, const ScheduleSize& schedule);

/// How many instructions the lists of all pipeline ranks have, nearly, for a model of `blocks` blocks. The layout's own
/// schedule is not read.
double count_instructions(int64_t blocks, const StepLayout& layout, const ScheduleSize& schedule);

/// Whether a step has at most kMostInstructions, and its blocks and ranks kMostPlaces.
bool is_countable(int64_t blocks, const StepLayout& layout, const ScheduleSize& schedule);

/// Throws InputError, saying what would do, for more than kMostInstructions or kMostPlaces, or when there are then more stages
/// than blocks.
void check_step_size(int64_t blocks, const StepLayout& layout, const ScheduleSize& schedule);

}  // namespace weft
