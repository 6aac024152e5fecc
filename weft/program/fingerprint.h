// fingerprint: one number for all that a program makes its ranks do, so that ranks can tell whether they have the same one.
//
// Programs with the same number have the same instructions in the same order with the same waits, on the same ranks, blocks,
// memory and mesh. What instructions cost does not count: it is estimated. Fixed for ever, and the same on every machine.
#pragma once

#include <cstdint>

#include "weft/program/program.h"

namespace weft {

/// The number of a whole program.
uint64_t fingerprint(const Program& program);
/// The number of a program's frame alone (program.h): what model and mesh it is for, and how these are laid out.
uint64_t frame_fingerprint(const Program& program);

}  // namespace weft
