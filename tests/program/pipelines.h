// Small pipeline programs, made by hand: a schedule turned into lists.
#pragma once

#include <algorithm>
#include <utility>

#include "tests/program/toy.h"
#include "weft/program/schedule.h"

namespace weft {

/// What each block of a stage costs, whichever it is.
struct StageCost {
  int blocks = 1;  ///< a stage
  double forward_flops = 1.0;
  double input_flops = 1.0;   ///< of backward: the part for the stage's input
  double weight_flops = 1.0;  ///< and the rest
  int64_t saved_bytes = 0;    ///< from a forward to its backward
  int64_t message_bytes = 0;  ///< from stage to stage
};

/// Stage s on rank s: all forwards, then all backwards.
inline Schedule gpipe(int ranks, int micro_batches) {
  Schedule schedule{.name = "gpipe", .micro_batches = micro_batches, .rank_of_stage = {}, .tasks = {}};
  for (int rank = 0; rank < ranks; ++rank) {
    schedule.rank_of_stage.push_back(rank);
    schedule.tasks.emplace_back();
    for (int micro = 0; micro < micro_batches; ++micro) schedule.tasks[rank].push_back({TaskKind::forward, rank, micro});
    for (int micro = 0; micro < micro_batches; ++micro) schedule.tasks[rank].push_back({TaskKind::backward, rank, micro});
  }
  return schedule;
}

/// Stage s on rank s: as many forwards as stages follow, then one forward and one backward in turn.
inline Schedule one_forward_one_backward(int ranks, int micro_batches) {
  Schedule schedule = gpipe(ranks, micro_batches);
  schedule.name = "1f1b";
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Task>& tasks = schedule.tasks[rank];
    tasks.clear();
    const int ahead = ranks - rank - 1;
    for (int i = 0; i < micro_batches + ahead; ++i) {
      if (i < micro_batches) tasks.push_back({TaskKind::forward, rank, i});
      if (i >= ahead) tasks.push_back({TaskKind::backward, rank, i - ahead});
    }
  }
  return schedule;
}

/// The same with backward in two parts: the weights' part as late as 1F1B's memory allows (ZB-H1 of arXiv:2401.10241).
inline Schedule zero_bubble_h1(int ranks, int micro_batches) {
  Schedule schedule = one_forward_one_backward(ranks, micro_batches);
  schedule.name = "zb-h1";
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Task> tasks;
    int left = 0;
    for (const Task& task : schedule.tasks[rank]) {
      if (task.kind == TaskKind::forward) {
        tasks.push_back(task);
        continue;
      }
      tasks.push_back({TaskKind::backward_input, rank, task.micro});
      if (task.micro >= rank) tasks.push_back({TaskKind::backward_weight, rank, left++});
    }
    while (left < micro_batches) tasks.push_back({TaskKind::backward_weight, rank, left++});
    schedule.tasks[rank] = tasks;
  }
  return schedule;
}

/// `chunks` stages a rank, stage s on rank s % ranks: Megatron's interleaved 1F1B. `ranks` must divide the micro-batches.
inline Schedule interleaved(int ranks, int chunks, int micro_batches) {
  Schedule schedule{.name = "interleaved", .micro_batches = micro_batches, .rank_of_stage = {}, .tasks = {}};
  for (int stage = 0; stage < ranks * chunks; ++stage) schedule.rank_of_stage.push_back(stage % ranks);
  const int all = micro_batches * chunks;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto task = [&](TaskKind kind, int i) {
      const int round = i / (ranks * chunks), place = i % (ranks * chunks);
      const int chunk = kind == TaskKind::forward ? place / ranks : chunks - 1 - place / ranks;
      return Task{kind, chunk * ranks + rank, round * ranks + place % ranks};
    };
    const int ahead = std::min(all, (ranks - rank - 1) * 2 + (chunks - 1) * ranks);
    schedule.tasks.emplace_back();
    for (int i = 0; i < all + ahead; ++i) {
      if (i < all) schedule.tasks[rank].push_back(task(TaskKind::forward, i));
      if (i >= ahead) schedule.tasks[rank].push_back(task(TaskKind::backward, i - ahead));
    }
  }
  return schedule;
}

/// Lists for one column: receives and sends where neighbouring stages are on different ranks, a load before each first stage
/// and a loss after each last one.
class PipelineLists {
 public:
  PipelineLists(const Schedule& schedule, const StageCost& cost) : schedule_(schedule), cost_(cost) {}

  InstructionList of(int rank) {
    list_.clear();
    rank_ = rank;
    for (const Task& task : schedule_.tasks[rank]) {
      task.kind == TaskKind::forward ? forward(task) : backward(task);
    }
    return list_;
  }

 private:
  int add(Instruction x, std::vector<int> waits = {}) {
    x.waits = std::move(waits);
    list_.push_back(std::move(x));
    return static_cast<int>(list_.size()) - 1;
  }
  // The output of a stage, or its gradient.
  Instruction transfer(Op op, Matter what, int stage, int micro, int other_stage) const {
    return {.op = op,
            .lane = Lane::comm,
            .first = last_block(stage),
            .last = last_block(stage) + 1,
            .micro = micro,
            .what = what,
            .peer = schedule_.rank_of_stage[other_stage],
            .wire_bytes = op == Op::send ? cost_.message_bytes : 0};
  }
  int last_block(int stage) const { return (stage + 1) * cost_.blocks - 1; }
  bool is_elsewhere(int stage) const { return schedule_.rank_of_stage[stage] != rank_; }

  void forward(const Task& task) {
    const int stage = task.stage;
    std::vector<int> waits;
    if (stage == 0) {
      waits = {add({.op = Op::load, .micro = task.micro})};
    } else if (is_elsewhere(stage - 1)) {
      waits = {add(transfer(Op::receive, Matter::activation, stage - 1, task.micro, stage - 1))};
    }
    for (int block = stage * cost_.blocks; block <= last_block(stage); ++block) {
      waits = {add({.op = Op::forward,
                    .first = block,
                    .last = block + 1,
                    .micro = task.micro,
                    .flops = cost_.forward_flops,
                    .allocates = cost_.saved_bytes},
                   waits)};
    }
    if (stage + 1 == schedule_.num_stages()) {
      add({.op = Op::loss, .micro = task.micro}, waits);
    } else if (is_elsewhere(stage + 1)) {
      add(transfer(Op::send, Matter::activation, stage, task.micro, stage + 1), waits);
    }
  }

  void backward(const Task& task) {
    const int stage = task.stage;
    const bool only_weights = task.kind == TaskKind::backward_weight;
    const bool only_input = task.kind == TaskKind::backward_input;
    std::vector<int> waits;
    if (!only_weights && stage + 1 < schedule_.num_stages() && is_elsewhere(stage + 1)) {
      waits = {add(transfer(Op::receive, Matter::gradient, stage, task.micro, stage + 1))};
    }
    for (int block = last_block(stage); block >= stage * cost_.blocks; --block) {
      waits = {add({.op = only_weights ? Op::backward_weight
                          : only_input ? Op::backward_input
                                       : Op::backward,
                    .first = block,
                    .last = block + 1,
                    .micro = task.micro,
                    .flops = (only_weights ? 0.0 : cost_.input_flops) + (only_input ? 0.0 : cost_.weight_flops),
                    .frees = only_input ? 0 : cost_.saved_bytes},
                   waits)};
    }
    if (!only_weights && stage > 0 && is_elsewhere(stage - 1)) {
      add(transfer(Op::send, Matter::gradient, stage - 1, task.micro, stage - 1), waits);
    }
  }

  const Schedule& schedule_;
  StageCost cost_;
  InstructionList list_;
  int rank_ = 0;
};

inline Program pipeline_program(const Schedule& schedule, const StageCost& cost = {}, MeshSizes mesh = {}) {
  mesh.pp = schedule.num_ranks();
  Program program = toy_program(toy_model(schedule.num_stages() * cost.blocks, 0));
  program.shards = mesh.shard;
  program.replicas = mesh.dp;
  program.micro_batches = schedule.micro_batches;
  program.mesh = mesh;
  for (int block = 0; block < program.num_blocks(); ++block) {
    program.holders.push_back({schedule.rank_of_stage[block / cost.blocks]});
  }
  PipelineLists lists(schedule, cost);
  for (int pp = 0; pp < mesh.pp; ++pp) program.lists.push_back(lists.of(pp));
  program.buffers.resize(program.lists.size());
  for (int rank = 0; rank < mesh.world(); ++rank) program.list_of_rank.push_back(rank / (mesh.world() / mesh.pp));
  return program;
}

}  // namespace weft
