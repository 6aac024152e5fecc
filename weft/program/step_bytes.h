// step_bytes: how many elements and bytes weft counts with, told before a step is made.
//
// Below these limits no sum of a step, a rank's or a report's, leaves 64 bits. check_program() keeps whoever writes a program
// by hand to them, check_step_bytes() a model and a layout: what the one lets pass the other does.
#pragma once

#include <cstdint>

#include "weft/program/build.h"

namespace weft {

constexpr int64_t kMostElements = int64_t{1} << 52;  ///< of a model, padding included
constexpr int64_t kMostBytes = int64_t{1} << 60;     ///< of one instruction, live at a time, and sent by a rank in a step

/// Throws InputError, saying what would do, for negative sizes, and where elements, activations or what is sent may be more.
void check_step_bytes(const ModelCost& model, const StepLayout& layout);

}  // namespace weft
