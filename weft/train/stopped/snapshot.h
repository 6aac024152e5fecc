// RankSnapshot: where this rank stands, taken in milliseconds, and named and written afterwards.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/base/thread_stacks.h"
#include "weft/comm/world.h"
#include "weft/engine/current_instruction.h"
#include "weft/report/stopped/rank_evidence.h"

namespace weft {

/// What a rank says of itself.
struct RankActivity {
  std::string activity = {};
  std::vector<std::string> blocks = {};
  int thread = 0;  ///< that does it; 0: unknown
  std::shared_ptr<const CurrentInstruction> current = {};
};

struct RankSnapshot {
  RankEvidence evidence;  ///< without the threads' functions
  std::vector<ThreadStack> stacks;
};

RankSnapshot take_snapshot(const World& world, const RankActivity& activity);

/// The evidence with the names of functions, as far as they are found in about a second. Ranks that have ended or are stopped,
/// as far as the table of ranks knows, are listed.
RankEvidence named(RankSnapshot snapshot, const World& world);

}  // namespace weft
