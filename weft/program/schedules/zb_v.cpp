#include "weft/program/schedules/zb_v.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr std::string_view kZbV = "zb-v";

/// One rank's list. `down` is its stage on the way down the V, `up` the stage on the way up.
///
/// The counts below are for a full pipeline, 2 p - 1 micro-batches or more. With fewer, the list is made for that many, and
/// tasks of nonexistent micro-batches are left out.
class RankList {
 public:
  RankList(const PipelineShape& shape, int rank)
      : ranks_(shape.ranks),
        rank_(rank),
        micro_batches_(shape.micro_batches),
        full_(std::max(shape.micro_batches, 2 * shape.ranks - 1)),
        down_{.stage = rank},
        up_{.stage = 2 * shape.ranks - 1 - rank} {}

  std::vector<Task> make() {
    warm_up();
    while (up_.forwards < full_) {
      if (down_.forwards < full_) forward(down_);
      backward(down_);
      forward(up_);
      backward(up_);
    }
    cool_down();
    return std::move(tasks_);
  }

 private:
  struct Chunk {
    int stage;
    int forwards = 0, inputs = 0, weights = 0;  ///< done so far
  };

  void warm_up() {
    for (int i = 0; i < 2 * (ranks_ - rank_) - 1; ++i) forward(down_);
    for (int i = 0; i < rank_; ++i) {
      forward(up_);
      forward(down_);
    }
    for (int i = 0; i < ranks_ - rank_; ++i) {
      forward(up_);
      backward(up_);
    }
  }

  // Gradients of inputs first, as other ranks wait for them; the weight parts fill the end.
  void cool_down() {
    for (int i = 0; i < rank_; ++i) {
      input(down_);
      input(up_);
    }
    for (int i = 0; i < ranks_ - rank_; ++i) {
      input(down_);
      weight(down_);
    }
    while (up_.weights < full_) weight(up_);
    while (down_.weights < full_) weight(down_);
  }

  void forward(Chunk& chunk) { add(TaskKind::forward, chunk.stage, chunk.forwards++); }
  void input(Chunk& chunk) { add(TaskKind::backward_input, chunk.stage, chunk.inputs++); }
  void weight(Chunk& chunk) { add(TaskKind::backward_weight, chunk.stage, chunk.weights++); }
  void backward(Chunk& chunk) {
    input(chunk);
    weight(chunk);
  }

  void add(TaskKind kind, int stage, int micro) {
    if (micro < micro_batches_) tasks_.push_back({kind, stage, micro});
  }

  int ranks_, rank_, micro_batches_, full_;
  Chunk down_, up_;
  std::vector<Task> tasks_;
};

}  // namespace

Schedule zb_v_schedule(const PipelineShape& shape) {
  check_positive(kZbV, shape);
  if (shape.chunks != 2) throw InputError(fmt::format("schedule {}: {} chunks per rank, must be 2", kZbV, shape.chunks));
  Schedule schedule{.name = std::string(kZbV), .micro_batches = shape.micro_batches, .rank_of_stage = {}, .tasks = {}};
  for (int stage = 0; stage < 2 * shape.ranks; ++stage) {
    schedule.rank_of_stage.push_back(stage < shape.ranks ? stage : 2 * shape.ranks - 1 - stage);
  }
  for (int rank = 0; rank < shape.ranks; ++rank) schedule.tasks.push_back(RankList(shape, rank).make());
  return schedule;
}

}  // namespace weft
