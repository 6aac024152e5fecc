// Simulation: the result of simulate() for a step.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/program/memory.h"
#include "weft/program/program.h"
#include "weft/program/simulate/computing_times.h"
#include "weft/program/timed.h"

namespace weft {

/// When an instruction ran; the step begins at 0.
struct Span {
  double start_s = 0.0;     ///< earliest start by list order and waits
  double begin_s = 0.0;     ///< when bytes begin to move; start_s if it does not wait for other ranks
  double end_s = 0.0;       ///< when it has finished
  bool holds_lane = false;  ///< moves bytes without overlapping compute
  double held_s = 0.0;      ///< compute: how much later it starts because its first launch comes late
  double slowed_s = 0.0;    ///< compute: how much longer it takes because its later launches do
  double beside_s = 0.0;   ///< compute: how much longer it takes because of collectives beside it (slowdown.h) or too few cores
  double exposed_s = 0.0;  ///< other lanes, and compute that moves bytes: what of SimulatedRank::exposed_s it causes
};

/// A rank and all ranks identical to it.
struct SimulatedRank {
  int rank = 0;               ///< the first of these ranks
  int count = 1;              ///< number of these ranks
  int pp = 0;                 ///< place on the pipeline axis
  std::vector<Span> spans;    ///< one per instruction
  double end_s = 0.0;         ///< when its last instruction ends
  double first_work_s = 0.0;  ///< when its first forward or backward starts
  double last_work_s = 0.0;   ///< when its last forward or backward ends
  double busy_s = 0.0;        ///< time that the compute lane works
  ComputingTimes computing;   ///< the same by kind of operator
  double span_work_s = 0.0;   ///< part of busy_s between first_work_s and last_work_s
  double exposed_s = 0.0;     ///< compute lane idle while bytes that it needs are in flight
  double waiting_s = 0.0;     ///< compute lane idle for other ranks: the bubble, and other ranks' delays
  double launch_s = 0.0;      ///< compute lane idle for launches: the step is launch-bound for so long
  int64_t launches = 0;       ///< what its host gives the device (program/launches.h); 0 if the hardware gives no time for it
  int host_waits = 0;         ///< how often the host waits for the device before it goes on with the step
  double flops = 0.0;         ///< operations, recompute included
  double recompute_flops = 0.0;  ///< part of flops in recompute
  double recompute_s = 0.0;      ///< part of busy_s in recompute, without what slows it
  MemoryEstimate memory;         ///< peaks by category; activations in time order
};

/// A simulated step.
struct Simulation {
  std::vector<SimulatedRank> ranks;  ///< by class of columns, then by place on the pipeline axis
  std::vector<int> index_of_rank;    ///< world rank -> index into `ranks`
  double step_s = 0.0;               ///< time until the last rank is done
  /// The longest time from a rank's first forward to its last backward: the cost of Qi et al. 2024 (arXiv:2401.10241). Later
  /// joint work of the ranks (total loss, norm, updates) is in step_s only.
  double span_s = 0.0;
  double flops = 0.0;        ///< operations of all ranks, recompute included
  double model_flops = 0.0;  ///< operations of all ranks, without recompute
  double utilisation = 0.0;  ///< model_flops over the devices' peak in step_s (MFU)

  const SimulatedRank& of(int rank) const { return ranks[index_of_rank[rank]]; }  ///< simulation of a world rank
  double launch_bound_share() const;  ///< largest launch_s of a rank, as a share of the step
  double busiest_s() const;           ///< largest busy_s of a rank
  /// Share of a step that the busiest rank waits: 1 - busiest_s() / step_s.
  double bubble_share() const;
  /// Bubble rate of Qi et al.: 1 - most work of a rank in its span / span_s.
  double span_bubble_share() const;
};

/// All instructions of the simulated ranks, one rank per class of identical ranks. Ordered by rank, then list. Throws
/// InputError for a simulation of another program.
std::vector<TimedInstruction> timed_instructions(const Program& program, const Simulation& simulation);

}  // namespace weft
