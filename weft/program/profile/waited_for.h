// waited_for: what a rank waited for in a part of a measured step.
#pragma once

#include "weft/program/profile/measured_step.h"
#include "weft/program/profile/partners.h"

namespace weft {

/// A time in which a rank ran nothing.
struct RankIdle {
  int index = -1;                   ///< the instruction waited for; -1: none, its host was busy
  RankInstruction late = {-1, -1};  ///< the member that came last; rank -1: it meets none, or all had come before
  double arrival_s = 0.0;           ///< when that one came; otherwise the begin
  double until_s = 0.0;             ///< end of the wait; its host was busy from then on
};

class WaitedFor {
 public:
  /// Keeps references.
  WaitedFor(const Program& program, const Partners& partners, const MeasuredStep& step)
      : program_(program), partners_(partners), step_(step) {}

  /// The time from `begin_s` to `end_s` before instruction `index` of a rank starts; the list's size: before the step's end.
  RankIdle before(int rank, int index, double begin_s, double end_s) const;
  /// The time within a call that waits for other ranks itself.
  RankIdle within(int rank, int index, double begin_s, double end_s) const;
  /// Whether a rank does nothing else while the instruction moves bytes.
  bool holds_rank(int rank, int index) const;

 private:
  const Program& program_;
  const Partners& partners_;
  const MeasuredStep& step_;
};

}  // namespace weft
