#include "weft/plan/search/pass_bounds.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "weft/program/build/block_instructions.h"
#include "weft/program/build/build.h"
#include "weft/program/ranks.h"
#include "weft/program/simulate/network.h"
#include "weft/program/simulate/pass_times.h"
#include "weft/program/simulate/work_time.h"

namespace weft {

namespace {

/// The frame of a step on one pipeline rank. Replicas make the mesh such that cp and tp lie on hosts as in the whole world.
Program frame_of(const ModelCost& cost, LayoutOptions options, StepCounts counts, int replicas) {
  options.shard_level = ShardLevel::none;
  options.inner_shards = 0;
  counts.pp = counts.shard = counts.slots = 1;
  counts.dp = replicas;
  counts.micro_batches = 2;  // the first writes gradients, later ones add to them
  return frame_program(cost, layout_without_schedule(options, counts));
}

/// Least seconds of passes on the compute lane, with calls inside blocks.
class LaneTime {
 public:
  LaneTime(const ModelCost& cost, const Program& frame, const Hardware& hardware)
      : cost_(cost), ranks_(frame), work_(frame, hardware), network_(ranks_, hardware), times_(frame, work_, network_) {}

  double forward(int block) { return seconds(forward_of(cost_, block, 0)); }
  double loss() { return seconds(loss_of(cost_, 0)); }
  /// A whole backward, or a part of one.
  double backward(Op op, int block) {
    return std::min(seconds(backward_of(cost_, op, block, 0, false)), seconds(backward_of(cost_, op, block, 1, false)));
  }

 private:
  double seconds(const Instruction& x) { return times_.seconds(x); }

  const ModelCost& cost_;
  Ranks ranks_;
  WorkTime work_;
  Network network_;
  PassTimes times_;
};

PassBound pass_bound(const BlockCost& cost, int block, LaneTime& time) {
  PassBound bound{.forward = time.forward(block),
                  .backward = time.backward(Op::backward, block),
                  .kept_bytes = cost.saved_bytes + cost.made_bytes()};
  bound.input = cost.splits ? time.backward(Op::backward_input, block) : bound.backward;
  bound.weight = cost.splits ? time.backward(Op::backward_weight, block) : 0.0;
  return bound;
}

/// Seconds of an operation per owned element, without what does not depend on it: by how much halving the elements shortens it.
double seconds_per_element(Op op, Program frame, const Hardware& hardware) {
  const Instruction x{.op = op, .last = frame.num_blocks()};
  const double whole = WorkTime(frame, hardware).seconds(x);
  const auto numel = static_cast<double>(std::accumulate(frame.block_numel.begin(), frame.block_numel.end(), int64_t{0}));
  frame.shards = 2;
  return numel > 0.0 ? std::max(whole - WorkTime(frame, hardware).seconds(x), 0.0) * 2.0 / numel : 0.0;
}

}  // namespace

PassBounds pass_bounds(const ModelCost& cost, const LayoutOptions& options, const StepCounts& counts, int world,
                       const Hardware& hardware) {
  const int replicas = std::min(hardware.ranks_per_host, world / (counts.tp * counts.cp));
  const Program frame = frame_of(cost, options, counts, replicas);
  LaneTime time(cost, frame, hardware);
  PassBounds result{.blocks = {},
                    .norm_s = seconds_per_element(Op::norm, frame, hardware),
                    .update_s = seconds_per_element(Op::update, frame, hardware)};
  std::map<std::tuple<SharedOperators, const BlockTime*, int64_t>, PassBound> known;  // of blocks with counted operators
  for (int b = 0; b < frame.num_blocks(); ++b) {
    const BlockCost& block = cost.blocks[b];
    const std::tuple key(block.operators, find_block_time(hardware, block.name), block.numel);
    const auto found = known.find(key);
    result.blocks.push_back(found != known.end() ? found->second : pass_bound(block, b, time));
    if (block.operators) known.try_emplace(key, result.blocks.back());
  }
  result.blocks.back().backward += time.loss();
  result.blocks.back().input += time.loss();
  return result;
}

PassBounds with_recompute(PassBounds bounds, const ModelCost& cost, int every) {
  for (int b = 0; every > 0 && b + 1 < std::ssize(bounds.blocks); b += every) {
    PassBound& block = bounds.blocks[b];
    block.recompute = block.forward;
    block.backward += block.recompute;
    block.input += block.recompute;
    block.kept_bytes -= cost.blocks[b].saved_bytes;
    if (b > 0) bounds.blocks[b - 1].moved_bytes = cost.blocks[b - 1].made_bytes();
  }
  return bounds;
}

}  // namespace weft
