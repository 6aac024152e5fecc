// fingerprint: a hash of a program's actions, so that ranks can check that their programs agree.
//
// Programs with the same number have the same instructions in the same order with the same waits, on the same ranks, blocks,
// memory and mesh. Instruction costs are estimates and do not count. The number is the same on every machine and never changes.
#pragma once

#include <cstdint>

#include "weft/program/program.h"

namespace weft {

/// Fingerprint of a whole program.
uint64_t fingerprint(const Program& program);
/// Fingerprint of a program's frame alone (program.h): its model and mesh, and their layout.
uint64_t frame_fingerprint(const Program& program);

}  // namespace weft
