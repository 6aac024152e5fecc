// Simulation: what simulate() tells of a step.
#pragma once

#include <vector>

#include "weft/program/memory.h"
#include "weft/program/program.h"
#include "weft/program/timed.h"

namespace weft {

struct Span {
  double start_s = 0.0;  ///< when list order and waits let it start
  double begin_s = 0.0;  ///< when bytes begin to move; start_s for what does not wait for other ranks
  double end_s = 0.0;
};

/// A rank and all those that do the same at the same time.
struct SimulatedRank {
  int rank = 0;  ///< the first of them
  int count = 1;
  int pp = 0;               ///< its place on the pipeline axis
  std::vector<Span> spans;  ///< by instruction
  double end_s = 0.0;
  double first_work_s = 0.0, last_work_s = 0.0;  ///< its first forward or backward starts, its last ends
  double busy_s = 0.0;                           ///< the compute lane's work
  double span_work_s = 0.0;                      ///< of it, that between first_work_s and last_work_s
  double exposed_s = 0.0;                        ///< the compute lane stands still while bytes that it needs are on their way
  double waiting_s = 0.0;                        ///< it stands still for other ranks: the bubble, and other ranks' delays
  double flops = 0.0;                            ///< recompute included
  double recompute_flops = 0.0;                  ///< of them, forwards run again
  MemoryEstimate memory;                         ///< peaks by category; activations in the order of time
};

struct Simulation {
  std::vector<SimulatedRank> ranks;  ///< by class of columns, then by place on the pipeline axis
  std::vector<int> index_of_rank;    ///< world rank -> index into `ranks`
  double step_s = 0.0;
  /// The longest time from a rank's first forward to its last backward: the cost of Qi et al. 2024 (arXiv:2401.10241). What
  /// ranks do after that together, the loss's total, the norm, updates, is in step_s only.
  double span_s = 0.0;
  double flops = 0.0;  ///< of all ranks, recompute included
  double model_flops = 0.0;
  double utilisation = 0.0;  ///< model_flops, of what all devices could do at their peak in step_s (MFU)

  const SimulatedRank& of(int rank) const { return ranks[index_of_rank[rank]]; }
  double busiest_s() const;
  /// 1 - busiest rank's work / step_s.
  double bubble_share() const;
  /// 1 - most work of a rank in its span / span_s.
  double span_bubble_share() const;
};

/// Of the ranks that were simulated: one for each class of ranks that do the same. By rank, then in list order. Throws
/// InputError for a simulation of another program.
std::vector<TimedInstruction> timed_instructions(const Program& program, const Simulation& simulation);

}  // namespace weft
