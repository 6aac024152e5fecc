// One random change to a correct program: an instruction dropped, repeated, swapped, readdressed, or with a missing wait; two
// loads swapped, or a wrong number of bytes freed, or on another micro-batch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/program/toy.h"
#include "tests/support/seeds.h"
#include "weft/program/program.h"

namespace weft {

enum class DamageKind { dropped, doubled, swapped, misaddressed, impatient, swapped_loads, wrong_free };

inline constexpr DamageKind kDamageKinds[] = {DamageKind::dropped,      DamageKind::doubled,   DamageKind::swapped,
                                              DamageKind::misaddressed, DamageKind::impatient, DamageKind::swapped_loads,
                                              DamageKind::wrong_free};

struct Damage {
  std::string what;     ///< "rank 3 alone, dropped load0"
  std::vector<Op> ops;  ///< changed operations
  Program program;
};

/// On one random rank, or on all that share its list. Empty if the random choice leaves an equivalent program:
///
/// - A reduce_scatter of a micro-batch other than the last, which all of its ranks leave out, or move to a block without
///   parameters: the next one includes its gradients.
/// - An update or a combine of blocks without parameters, if they are sharded.
/// - A gather from the inner ranks that all of them run over the whole axis: the same weights, sent further.
/// - Two backwards of different blocks that add to a third one's gradients (tied weights), neither of which needs the
///   other: their order of summation is free.
/// - A send and the collective that waits for it only to clear it: the next collective then does.
/// - A wait that something else guarantees.
/// - Two identical instructions; and two independent ones, except messages of one channel and collectives of the same ranks,
///   which other ranks issue too.
std::optional<Damage> damage(const Program& program, DamageKind kind, test::Random& random);

}  // namespace weft
