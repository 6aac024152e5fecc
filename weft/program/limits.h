// limits: the largest numbers of elements and bytes that weft accepts.
//
// Within these limits no sum of a step, a rank or a report exceeds 64 bits. check_program() enforces them for hand-written
// programs, check_step_bytes() for a model and a layout, whose program then keeps them too.
#pragma once

#include <cstdint>

namespace weft {

constexpr int64_t kMostElements = int64_t{1} << 52;  ///< elements of a model, padding included
constexpr int kMostVotes = 4096;                     ///< numbers sent with the losses (Program::votes)
constexpr int64_t kMostBytes = int64_t{1} << 60;     ///< bytes of an instruction, live at once, or sent by a rank per step

}  // namespace weft
