#include "weft/program/build/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "weft/base/error.h"
#include "weft/program/build/block_instructions.h"
#include "weft/program/pipeline/task_times.h"

namespace weft {
namespace {

// A transfer, and the earliest task position for it on its rank.
struct Placed {
  double made = 0.0;  // time at which its data is made
  int before_task = 0;
  int block = 0, micro = 0, peer = 0;
  Payload what = Payload::none;
  Op op = Op::send;

  // Order over all ranks: by time, ties in a fixed order.
  std::tuple<double, Payload, int, int> order() const { return {made, what, block, micro}; }
};

class Expansion {
 public:
  Expansion(const ModelCost& model, const Schedule& schedule, const std::vector<StageBlocks>& stages)
      : model_(model),
        schedule_(schedule),
        stages_(stages),
        times_(task_times(schedule, std::vector<StageTimes>(stages.size()), 0.0)),
        transfers_(schedule.num_ranks()),
        next_target_(schedule.num_ranks(), 0) {}

  std::vector<InstructionList> run() {
    for (int rank = 0; rank < schedule_.num_ranks(); ++rank) place_transfers(rank);
    std::vector<InstructionList> lists;
    lists.reserve(transfers_.size());
    for (int rank = 0; rank < schedule_.num_ranks(); ++rank) lists.push_back(list_of(rank));
    return lists;
  }

 private:
  int last_stage() const { return static_cast<int>(stages_.size()) - 1; }
  int rank_of(int stage) const { return schedule_.rank_of_stage[stage]; }
  bool leaves(int from, int to) const { return to >= 0 && to <= last_stage() && rank_of(from) != rank_of(to); }

  // Places the transfers of this rank's outputs, on both sides.
  void place_transfers(int rank) {
    for (size_t k = 0; k < schedule_.tasks[rank].size(); ++k) {
      const Task& task = schedule_.tasks[rank][k];
      const double made = times_[rank][k].end;
      if (task.kind == TaskKind::forward && leaves(task.stage, task.stage + 1)) {
        place(made, Payload::activation, stages_[task.stage].last - 1, task.micro, rank, rank_of(task.stage + 1));
      }
      const bool makes_gradient = task.kind == TaskKind::backward || task.kind == TaskKind::backward_input;
      if (makes_gradient && leaves(task.stage, task.stage - 1)) {
        place(made, Payload::gradient, stages_[task.stage - 1].last - 1, task.micro, rank, rank_of(task.stage - 1));
      }
    }
  }

  void place(double made, Payload what, int block, int micro, int from, int to) {
    const auto add = [&](Op op, int rank, int peer) {
      const auto& times = times_[rank];
      const auto next =
          std::lower_bound(times.begin(), times.end(), made, [](const TaskTime& t, double time) { return t.start < time; });
      transfers_[rank].push_back({.made = made,
                                  .before_task = static_cast<int>(next - times.begin()),
                                  .block = block,
                                  .micro = micro,
                                  .peer = peer,
                                  .what = what,
                                  .op = op});
    };
    add(Op::send, from, to);
    add(Op::receive, to, from);
  }

  InstructionList list_of(int rank) {
    std::vector<Placed> placed = std::move(transfers_[rank]);
    std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) { return a.order() < b.order(); });
    InstructionList list;
    auto next = placed.begin();
    for (size_t k = 0; k <= schedule_.tasks[rank].size(); ++k) {
      for (; next != placed.end() && static_cast<size_t>(next->before_task) <= k; ++next) {
        list.push_back(transfer_of(model_, next->op, next->what, next->block, next->micro, next->peer));
      }
      if (k < schedule_.tasks[rank].size()) add_task(list, rank, schedule_.tasks[rank][k]);
    }
    return list;
  }

  void add_task(InstructionList& list, int rank, const Task& task) {
    const StageBlocks& stage = stages_[task.stage];
    if (task.kind == TaskKind::forward) {
      if (task.stage == 0) list.push_back(load_inputs(model_, task.micro));
      if (task.stage == last_stage() && model_.head_takes_targets) load_targets(list, rank, task.micro);
      for (int block = stage.first; block < stage.last; ++block) list.push_back(forward_of(model_, block, task.micro));
      return;
    }
    if (task.kind != TaskKind::backward_weight && task.stage == last_stage()) add_loss(list, rank, task.micro);
    const bool received = task.stage > 0 && leaves(task.stage, task.stage - 1);
    for (int block = stage.last - 1; block >= stage.first; --block) {
      const Op op = op_of(task.kind, model_.blocks[block].splits);
      if (op == Op::load) continue;
      list.push_back(backward_of(model_, op, block, task.micro, received && block == stage.first));
    }
  }

  // Micro-batches load in order, so if this one runs first, targets of earlier ones are loaded too.
  void load_targets(InstructionList& list, int rank, int micro) {
    for (int& next = next_target_[rank]; rank_of(0) != rank && next <= micro; ++next) {
      list.push_back({.op = Op::load, .micro = next});
    }
  }

  void add_loss(InstructionList& list, int rank, int micro) {
    load_targets(list, rank, micro);
    list.push_back(loss_of(model_, micro));
  }

  // A block that cannot be split runs its whole backward with the first part. Op::load stands for no instruction.
  static Op op_of(TaskKind kind, bool splits) {
    if (kind == TaskKind::backward) return Op::backward;
    if (kind == TaskKind::backward_input) return splits ? Op::backward_input : Op::backward;
    return splits ? Op::backward_weight : Op::load;
  }

  const ModelCost& model_;
  const Schedule& schedule_;
  const std::vector<StageBlocks>& stages_;
  std::vector<std::vector<TaskTime>> times_;
  std::vector<std::vector<Placed>> transfers_;  // by rank
  std::vector<int> next_target_;                // by rank: next micro-batch to load for its targets
};

}  // namespace

std::vector<StageBlocks> stages_of(const std::vector<int>& first_block, int num_blocks) {
  std::vector<StageBlocks> stages;
  for (const int first : first_block) {
    if (!stages.empty()) stages.back().last = first;
    stages.push_back({first, num_blocks});
  }
  return stages;
}

std::vector<StageBlocks> stage_blocks(const ModelCost& model, const Schedule& schedule, const std::vector<int>& first_block) {
  const int blocks = static_cast<int>(model.blocks.size());
  const int stages = schedule.num_stages();
  if (static_cast<int>(first_block.size()) != stages) {
    throw InputError(fmt::format("layout: the model is cut into {} stages, but schedule {} has {}", first_block.size(),
                                 schedule.name, stages));
  }
  std::vector<StageBlocks> result = stages_of(first_block, blocks);
  for (int s = 0; s < stages; ++s) {
    if (result[s].first < result[s].last && (s > 0 || first_block[s] == 0)) continue;
    throw InputError(
        fmt::format("layout: stage {} has blocks [{}, {}) of {}; every stage needs at least one, the first begins "
                    "at block 0",
                    s, result[s].first, result[s].last, blocks));
  }
  return result;
}

std::vector<InstructionList> stage_lists(const ModelCost& model, const Schedule& schedule,
                                         const std::vector<StageBlocks>& stages) {
  return Expansion(model, schedule, stages).run();
}

}  // namespace weft
