// Schedule: searched for the times of this pipeline, one stage a rank, backward split (after Qi et al. 2024, arXiv:2401.10241,
// section 3.1).
//
// Many sets of rules are tried (greedy_order.h): how far each rank's forwards run ahead, by a grid of straight lines over the
// ranks and then rank by rank; when a weight part fills a wait; what goes first. The best by PipelineCosts::goal is kept.
// Deterministic: the same costs give the same list.
// Memory: PipelineCosts::max_activations on every rank.
// Bubble: with times F, I, W near one another and 2 p activations close to none; with p activations that of ZB-H1 or less.
// The search takes about 1 500 simulated steps: half a second for 16 ranks and 128 micro-batches.
#pragma once

#include "weft/program/pipeline_costs.h"
#include "weft/program/schedule.h"

namespace weft {

/// Never worse than any of `others` that has one stage a rank in order and keeps the memory limit. Throws InputError when the
/// limit is below one activation or a time is negative or not finite.
Schedule automatic_schedule(const PipelineCosts& costs, int micro_batches, const std::vector<Schedule>& others = {});

}  // namespace weft
