// Schedule: searched for the times of this pipeline, one stage a rank, backward split (after Qi et al. 2024, arXiv:2401.10241,
// section 3.1).
//
// Many sets of rules are tried (greedy_order.h): how far each rank's forwards run ahead, by a grid of straight lines over the
// ranks and then rank by rank; when a weight part fills a wait; what goes first. The best by PipelineCosts::goal is kept.
// Deterministic: the same costs give the same list.
// Memory: PipelineCosts::max_activations on every rank.
// Bubble: with times F, I, W near one another and 2 p activations close to none; with p activations that of ZB-H1 or less.
// The search takes about 1 500 simulated steps, and some rounds of 12 a rank: half a second for 16 ranks and 128 micro-batches.
// What it may place is limited, so that it ends for any size; where that is less than the grid, only some lines of the grid are
// tried, evenly spread.
#pragma once

#include <cstdint>

#include "weft/program/pipeline/costs.h"
#include "weft/program/pipeline/schedule.h"

namespace weft {

constexpr int64_t kMostSearchedTasks = 60'000'000;  ///< in all steps that one search simulates: a few seconds

/// The best schedule found, never worse than any of `others` that has one stage a rank in order and keeps the memory limit.
/// Throws InputError when the limit is below one activation or a time is negative or not finite. What the search places is
/// taken off `tasks_left`, of which it takes at most half; null: twice kMostSearchedTasks.
Schedule automatic_schedule(const PipelineCosts& costs, int micro_batches, const std::vector<Schedule>& others = {},
                            int64_t* tasks_left = nullptr);

}  // namespace weft
