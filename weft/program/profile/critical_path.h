// critical_path: what the time of a measured step went to, and what waited for what.
//
// The path is followed backwards from the rank that ends last: through what the rank ran, and where it waited, to the rank
// whose part came last. So its pieces add up to the step's time, and a piece that gets shorter makes the step shorter, until
// another path is the longest.
#pragma once

#include <string>
#include <vector>

#include "weft/program/profile/measured_step.h"
#include "weft/program/profile/partners.h"

namespace weft {

/// A piece of the path.
struct PathPiece {
  /// What the rank did.
  enum class Doing { runs, moves, hosts } doing = Doing::runs;  ///< moves: bytes between ranks; hosts: between instructions
  int rank = 0;
  int index = 0;  ///< the instruction that it ran, waited for, or came to next; the list's size: the end of the step
  double start_s = 0.0, end_s = 0.0;
};

/// The path, first piece first. Throws as check_measured() does.
std::vector<PathPiece> critical_path(const Program& program, const Partners& partners, const MeasuredStep& step);

/// Waits of a rank for one kind of instruction, in which one rank came last.
struct RankWait {
  int rank = 0;
  std::string kind = {};       ///< of the instruction waited for (kinds_of())
  int late_rank = -1;          ///< came last; -1: the rank itself, or none
  std::string late_kind = {};  ///< what that rank ran meanwhile, mostly
  double late_s = 0.0;         ///< until it came
  double moving_s = 0.0;       ///< from then on: bytes in flight
};

/// Waits of all ranks, longest first. Throws as check_measured() does.
std::vector<RankWait> rank_waits(const Program& program, const Partners& partners, const MeasuredStep& step);

}  // namespace weft
