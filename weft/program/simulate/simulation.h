// Simulation: what simulate() tells of a step.
#pragma once

#include <vector>

#include "weft/program/memory.h"
#include "weft/program/program.h"
#include "weft/program/timed.h"

namespace weft {

/// When an instruction ran; the step begins at 0.
struct Span {
  double start_s = 0.0;     ///< when list order and waits let it start
  double begin_s = 0.0;     ///< when bytes begin to move; start_s for what does not wait for other ranks
  double end_s = 0.0;       ///< when all that it does is done
  bool holds_lane = false;  ///< it moves bytes, and nothing is computed meanwhile
};

/// A rank and all those that do the same at the same time.
struct SimulatedRank {
  int rank = 0;                  ///< the first of them
  int count = 1;                 ///< how many there are
  int pp = 0;                    ///< its place on the pipeline axis
  std::vector<Span> spans;       ///< by instruction
  double end_s = 0.0;            ///< when its last instruction ends
  double first_work_s = 0.0;     ///< when its first forward or backward starts
  double last_work_s = 0.0;      ///< when its last one ends
  double busy_s = 0.0;           ///< the compute lane's work
  double span_work_s = 0.0;      ///< of it, that between first_work_s and last_work_s
  double exposed_s = 0.0;        ///< the compute lane stands still while bytes that it needs are on their way
  double waiting_s = 0.0;        ///< it stands still for other ranks: the bubble, and other ranks' delays
  double flops = 0.0;            ///< recompute included
  double recompute_flops = 0.0;  ///< of them, forwards run again
  MemoryEstimate memory;         ///< peaks by category; activations in the order of time
};

/// A simulated step.
struct Simulation {
  std::vector<SimulatedRank> ranks;  ///< by class of columns, then by place on the pipeline axis
  std::vector<int> index_of_rank;    ///< world rank -> index into `ranks`
  double step_s = 0.0;               ///< until the last rank is done
  /// The longest time from a rank's first forward to its last backward: the cost of Qi et al. 2024 (arXiv:2401.10241). What
  /// ranks do after that together, the loss's total, the norm, updates, is in step_s only.
  double span_s = 0.0;
  double flops = 0.0;        ///< of all ranks, recompute included
  double model_flops = 0.0;  ///< of all ranks, without recompute
  double utilisation = 0.0;  ///< model_flops, of what all devices could do at their peak in step_s (MFU)

  const SimulatedRank& of(int rank) const { return ranks[index_of_rank[rank]]; }  ///< what a world rank does
  double busiest_s() const;                                                       ///< most work of a rank
  /// The share of a step that the busiest rank waits: 1 - busiest_s() / step_s.
  double bubble_share() const;
  /// The bubble rate of Qi et al.: 1 - most work of a rank in its span / span_s.
  double span_bubble_share() const;
};

/// All instructions of the ranks that were simulated, one rank for each class of ranks that do the same. By rank, then in list
/// order. Throws InputError for a simulation of another program.
std::vector<TimedInstruction> timed_instructions(const Program& program, const Simulation& simulation);

}  // namespace weft
