// One random change to a good program: an instruction dropped, doubled, swapped, addressed to another, or that no longer waits;
// two loads swapped, or bytes freed that are others or of another micro-batch.
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
  std::vector<Op> ops;  ///< that were touched
  Program program;
};

/// On one random rank, or on all that share its list. Nothing where the random choice leaves a program that does the same:
///
/// - A reduce_scatter of a micro-batch that is not the last one, which all of its ranks leave out, or make of a block without
///   parameters: the next one takes in what it would have.
/// - An update or a combine of blocks without parameters, where they are sharded.
/// - A gather from the inner ranks made by all of them from the whole axis: the same weights, sent further.
/// - Two backwards of different blocks that add to a third one's gradients (tied weights), neither of which needs the other:
/// they
///   are summed in no one order.
/// - A send and the collective that waits for it only to have it out of the way: the next collective does then.
/// - A wait for what something else makes sure of.
/// - Two instructions alike; and two that do not depend on one another, but for messages of one channel and collectives of the
///   same ranks, which others issue too.
std::optional<Damage> damage(const Program& program, DamageKind kind, test::Random& random);

}  // namespace weft
