#include "weft/plan/search/pass_bounds.h"

#include <algorithm>

#include "weft/program/build/block_instructions.h"
#include "weft/program/build/build.h"
#include "weft/program/ranks.h"
#include "weft/program/simulate/network.h"
#include "weft/program/simulate/pass_times.h"
#include "weft/program/simulate/work_time.h"

namespace weft {

namespace {

constexpr int64_t kFewElements = 16;  ///< whose bytes any cache holds

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
  PassBound bound{.forward = time.forward(block), .backward = time.backward(Op::backward, block)};
  bound.input = cost.splits ? time.backward(Op::backward_input, block) : bound.backward;
  bound.weight = cost.splits ? time.backward(Op::backward_weight, block) : 0.0;
  return bound;
}

/// Seconds of an operation per owned element, without what does not depend on it. Rates may grow with size, where caches hold
/// less of it: those of few elements are the least.
double seconds_per_element(Op op, Program frame, const Hardware& hardware) {
  const auto seconds = [&](int64_t elements) {
    frame.block_numel.assign(1, elements);
    return WorkTime(frame, hardware).seconds({.op = op, .last = 1});
  };
  return std::max(seconds(kFewElements) - seconds(0), 0.0) / static_cast<double>(kFewElements);
}

/// True if passes of the blocks take equally long.
bool are_alike(const BlockCost& a, const BlockCost& b, const Hardware& hardware) {
  return a.operators && a.operators == b.operators && a.numel == b.numel && a.splits == b.splits && a.calls == b.calls &&
         find_block_time(hardware, a.name) == find_block_time(hardware, b.name);
}

}  // namespace

PassBounds pass_bounds(const ModelCost& cost, const LayoutOptions& options, const StepCounts& counts, int world,
                       const Hardware& hardware) {
  const int replicas = std::min(hardware.ranks_per_host, world / (counts.tp * counts.cp));
  const Program frame = frame_of(cost, options, counts, replicas);
  Hardware alone = hardware;  // stages may lie on other hosts: ranks of a pipeline take fewer turns
  alone.cores.per_host = 0;
  LaneTime time(cost, frame, alone);
  PassBounds result{.blocks = {},
                    .norm_s = seconds_per_element(Op::norm, frame, hardware),
                    .update_s = seconds_per_element(Op::update, frame, hardware)};
  std::vector<int> known;  // blocks of each kind
  for (int b = 0; b < frame.num_blocks(); ++b) {
    const BlockCost& block = cost.blocks[b];
    const auto found =
        std::find_if(known.begin(), known.end(), [&](int other) { return are_alike(cost.blocks[other], block, hardware); });
    result.blocks.push_back(found != known.end() ? result.blocks[*found] : pass_bound(block, b, time));
    result.blocks.back().kept_bytes = block.saved_bytes + block.made_bytes();
    if (found == known.end()) known.push_back(b);
  }
  for (const BlockCost& block : cost.blocks) {
    for (const int used : block.uses) result.blocks[used].is_tied = true;
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
