// greedy_order: a schedule made by simulating time: whenever a rank is free, a few rules select its next task.
//
// One stage per rank, backward split. The idea is the heuristic of Qi et al. 2024 (arXiv:2401.10241, section 3.1): forwards
// ahead as the memory allows, then forward and backward_input in turn, and a backward_weight wherever a rank would wait or
// memory is short. The best rules depend on times and limit: automatic.h tries many. A rank knows what has started on other
// ranks, not what will start. Time is proportional to tasks x log(ranks).
#pragma once

#include <cstdint>
#include <vector>

#include "weft/program/pipeline/costs.h"
#include "weft/program/pipeline/schedule.h"

namespace weft {

/// Choice of a rank when a forward and a backward_input could both start.
enum class Preference : uint8_t {
  backward,
  alternate,  ///< the kind that the rank did not run last
  forward,
};

/// Rules of a rank.
struct GreedyRules {
  std::vector<int> ahead;  ///< by rank: most forwards beyond its backward_inputs, at least 1
  double least_gap = 1.0;  ///< a backward_weight fills a wait of at least this share of its own time
  double patience = 0.0;   ///< a forward gives way to a backward_input that comes within this share of the forward's time
  Preference preference = Preference::backward;  ///< choice if both could start
};

/// Returns the schedule of these rules, within the memory limit. Its name is "auto". Throws InputError if a rule or the limit
/// does not allow one micro-batch.
Schedule greedy_order(const PipelineCosts& costs, int micro_batches, const GreedyRules& rules);

}  // namespace weft
