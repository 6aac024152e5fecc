// limits: how many elements and bytes weft counts with.
//
// Below these no sum of a step, a rank's or a report's, leaves 64 bits. check_program() keeps whoever writes a program by hand
// to them, check_step_bytes() a model and a layout: what the one lets pass the other does.
#pragma once

#include <cstdint>

namespace weft {

constexpr int64_t kMostElements = int64_t{1} << 52;  ///< of a model, padding included
constexpr int kMostVotes = 4096;                     ///< numbers that travel with the losses (Program::votes)
constexpr int64_t kMostBytes = int64_t{1} << 60;     ///< of one instruction, live at a time, and sent by a rank in a step

}  // namespace weft
