// HostClock: when a rank's host gives its device the launches of an instruction.
#pragma once

#include <vector>

#include "weft/program/launches.h"
#include "weft/program/simulate/hardware.h"
#include "weft/program/simulate/simulation.h"
#include "weft/program/simulate/work_time.h"

namespace weft {

/// Launches of an instruction: the first and the last reach the device at these times, if there are any.
struct Given {
  int launches = 0;
  double first_s = 0.0, last_s = 0.0;
};

/// Host of one rank. Without Hardware::host_launch_s it has no launches.
class HostClock {
 public:
  /// `ahead_s`: how far the host is ahead of the device as the step begins.
  HostClock(const Program& program, const InstructionList& list, const Hardware& hardware, const ModelLaunches& launches,
            const WorkTime& work, double ahead_s);

  /// Launches of the next instruction, were they given now. A measured instruction has none: its time includes them.
  Given next(int index) const;
  /// They have been given.
  void give(int index);
  /// Index of the instruction that the host waits for before it gives anything else; -1: none.
  int waits_for() const { return waits_for_; }
  /// That instruction ends at `end_s`.
  void wait_until(double end_s);
  /// After all instructions: how far the host is ahead of the step's end at `end_s`.
  double ahead_s(double end_s, const std::vector<Span>& spans) const;

  int64_t launches() const { return num_launches_; }  ///< number given
  int waits() const { return num_waits_; }            ///< number of waits

 private:
  double launch_s_ = 0.0, graph_launch_s_ = 0.0, wait_s_ = 0.0;
  std::vector<HostWork> work_;  // empty: no launches
  double now_s_ = 0.0;
  int waits_for_ = -1;
  int64_t num_launches_ = 0;
  int num_waits_ = 0;
};

/// How far each rank's host is ahead of the end of the step; below 0: behind it.
std::vector<double> hosts_ahead_s(const std::vector<HostClock>& hosts, const std::vector<SimulatedRank>& ranks);

}  // namespace weft
