#include "weft/plan/search/pass_bounds.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "weft/program/build/build.h"
#include "weft/program/ranks.h"
#include "weft/program/simulate/network.h"
#include "weft/program/simulate/work_time.h"

namespace weft {

namespace {

constexpr int kMicroBatches = 2;  ///< the first writes gradients, later ones add to them
constexpr double kNone = std::numeric_limits<double>::infinity();

/// A program with all blocks on one pipeline rank, as in cost/block_work.cpp. Replicas make the mesh such that cp and tp lie on
/// hosts as in the whole world.
Program alone(const ModelCost& cost, LayoutOptions options, StepCounts counts, int replicas, bool split) {
  std::vector<Task> tasks;
  for (int micro = 0; micro < kMicroBatches; ++micro) {
    tasks.push_back({TaskKind::forward, 0, micro});
    tasks.push_back({split ? TaskKind::backward_input : TaskKind::backward, 0, micro});
    if (split) tasks.push_back({TaskKind::backward_weight, 0, micro});
  }
  options.pipeline = {.given = {.name = "one rank", .micro_batches = kMicroBatches, .rank_of_stage = {0}, .tasks = {tasks}}};
  options.shard_level = ShardLevel::none;
  options.inner_shards = 0;
  options.gathered_bytes = 0;
  options.offload_optimizer = options.offload_parameters = options.offload_activations = Offload::none;
  counts.pp = counts.shard = counts.slots = 1;
  counts.dp = replicas;
  counts.micro_batches = kMicroBatches;
  return build_program(cost, step_layout(options, counts));
}

/// Seconds of instructions on the compute lane, with calls inside blocks.
class LaneTime {
 public:
  LaneTime(const Program& program, const Hardware& hardware)
      : program_(program), ranks_(program), work_(program, hardware), network_(ranks_, hardware) {}

  double seconds(const Instruction& x) {
    const double own = work_.seconds(x);
    const std::vector<InnerCall>& calls = program_.inner_calls(x);
    return calls.empty() || work_.is_measured(x) ? own : network_.seconds(calls, x.flops, own);
  }

 private:
  const Program& program_;
  Ranks ranks_;
  WorkTime work_;
  Network network_;
};

void take_least(double& least, double seconds) { least = std::min(least, seconds); }

/// Adds what a program's list takes; of the passes that it lacks, nothing.
void add_passes(const Program& program, const Hardware& hardware, bool split, std::vector<PassBound>& blocks) {
  LaneTime time(program, hardware);
  const size_t count = blocks.size();
  std::vector<double> forward(count, kNone), again(count, kNone), backward(count, kNone), weight(count, kNone);
  std::vector<bool> ran(count * kMicroBatches, false);
  double loss = kNone;
  for (const Instruction& x : program.of(0)) {
    const auto block = static_cast<size_t>(x.first);
    if (x.op == Op::loss) take_least(loss, time.seconds(x));
    if (x.op == Op::forward) {
      auto has_run = ran[block * kMicroBatches + x.micro];
      take_least(has_run ? again[block] : forward[block], time.seconds(x));
      has_run = true;
    }
    if (x.op == Op::backward || x.op == Op::backward_input) take_least(backward[block], time.seconds(x));
    if (x.op == Op::backward_weight) take_least(weight[block], time.seconds(x));
    if (x.micro == 0 && x.op == Op::forward && !split && again[block] == kNone) blocks[block].kept_bytes += x.allocates;
    if (x.micro == 0 && x.op == Op::drop && !split) blocks[block].kept_bytes -= x.frees;
  }
  const auto or_nothing = [](double seconds) { return seconds == kNone ? 0.0 : seconds; };
  for (size_t b = 0; b < count; ++b) {
    PassBound& block = blocks[b];
    block.forward = or_nothing(forward[b]);
    block.recompute = or_nothing(again[b]);
    (split ? block.input : block.backward) =
        or_nothing(backward[b]) + block.recompute + (b + 1 == count ? or_nothing(loss) : 0.0);
    if (split) block.weight = or_nothing(weight[b]);
  }
}

double update_seconds(const Program& program, const Hardware& hardware) {
  const WorkTime work(program, hardware);
  double sum = 0.0;
  for (const Instruction& x : program.of(0)) {
    if (x.op == Op::norm || x.op == Op::update) sum += work.seconds(x);
  }
  return sum;
}

/// Seconds per owned element, without what does not depend on it: by how much halving the elements shortens updates.
double update_seconds_per_element(Program program, const Hardware& hardware) {
  const double whole = update_seconds(program, hardware);
  const auto numel = static_cast<double>(std::accumulate(program.block_numel.begin(), program.block_numel.end(), int64_t{0}));
  program.shards = 2;
  return numel > 0.0 ? std::max(whole - update_seconds(program, hardware), 0.0) * 2.0 / numel : 0.0;
}

}  // namespace

PassBounds pass_bounds(const ModelCost& cost, const LayoutOptions& options, const StepCounts& counts, int world,
                       const Hardware& hardware) {
  const int replicas = std::min(hardware.ranks_per_host, world / (counts.tp * counts.cp));
  PassBounds result{.blocks = std::vector<PassBound>(cost.blocks.size())};
  const Program whole = alone(cost, options, counts, replicas, false);
  add_passes(whole, hardware, false, result.blocks);
  add_passes(alone(cost, options, counts, replicas, true), hardware, true, result.blocks);
  result.update_s = update_seconds_per_element(whole, hardware);
  return result;
}

}  // namespace weft
