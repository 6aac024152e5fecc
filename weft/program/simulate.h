// simulate: how long a step takes, who waits for whom, and what memory it needs, for any number of ranks and without devices.
//
// Event-driven, by the rules of instruction.h and with the costs of work_time.h and network.h. Instructions of a rank start in
// list order, each after all that it waits for. A collective begins when the last member has started it and each member's port
// is free, and ends for all at once. Messages from one rank to another are sent one after the other; a receive ends when its
// message is there, or when it is started, if later. Where hardware does not overlap, every instruction waits for the one
// before it, and a receive takes as long as the send.
//
// Columns of one class (ranks.h) are simulated once: time and memory grow with the instructions of distinct columns only.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/program/hardware.h"
#include "weft/program/memory.h"
#include "weft/program/program.h"

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

/// Throws Error, naming rank and instruction, for what would never end: a collective that a member does not join, a receive
/// without a send, a message that is not the one expected or that nobody takes. The same program gives the same bits.
/// Throws InputError for hardware that makes no sense, that lacks a link or tier the program uses or times blocks it does not
/// have, and for a step of more than 1e15 s.
/// `memory` is by place on the pipeline axis; empty: as MemoryOptions has it. It throws InputError for another number of them.
Simulation simulate(const Program& program, const Hardware& hardware, const std::vector<MemoryOptions>& memory = {});

}  // namespace weft
