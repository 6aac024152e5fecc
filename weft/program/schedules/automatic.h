// Schedule "auto": searched for this pipeline's times; one stage per rank, backward split (after Qi et al. 2024,
// arXiv:2401.10241, section 3.1).
//
// Many sets of rules are tried (greedy_order.h): how far each rank's forwards run ahead, by a grid of straight lines over the
// ranks and then rank by rank; when a weight part fills a wait; what goes first. The best by PipelineCosts::goal is kept.
// Deterministic: the same costs give the same list.
// Memory: PipelineCosts::max_activations on every rank.
// Bubble, with similar times F, I, W: near 0 with 2 p activations; ZB-H1's or less with p.
// The search simulates about 1 500 steps, plus a few rounds of 12 per rank: half a second for 16 ranks and 128 micro-batches. A
// limit on placed tasks ends it for any size; if it is below the grid's size, only evenly spread lines are tried.
#pragma once

#include <cstdint>

#include "weft/program/pipeline/costs.h"
#include "weft/program/pipeline/schedule.h"

namespace weft {

constexpr int64_t kMostSearchedTasks = 60'000'000;  ///< limit over all steps of one search: a few seconds

/// Returns the best schedule found, never worse than any of `others` that has one stage per rank in order and keeps the memory
/// limit. Throws InputError if the limit is below one activation or a time is negative or not finite. The tasks that the search
/// places, at most half of `tasks_left`, are subtracted from it; null: a budget of twice kMostSearchedTasks.
Schedule automatic_schedule(const PipelineCosts& costs, int micro_batches, const std::vector<Schedule>& others = {},
                            int64_t* tasks_left = nullptr);

}  // namespace weft
