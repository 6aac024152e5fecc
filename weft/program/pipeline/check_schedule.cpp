#include "weft/program/pipeline/check_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "weft/base/error.h"
#include "weft/program/pipeline/task_times.h"

namespace weft {
namespace {

constexpr std::array kKinds = {TaskKind::forward, TaskKind::backward, TaskKind::backward_input, TaskKind::backward_weight};

class ScheduleCheck {
 public:
  explicit ScheduleCheck(const Schedule& schedule)
      : schedule_(schedule),
        count_(schedule.rank_of_stage.size() * static_cast<size_t>(std::max(schedule.micro_batches, 0))),
        last_forward_(schedule.rank_of_stage.size(), -1),
        last_sum_(schedule.rank_of_stage.size(), -1) {}

  void run() {
    check_places();
    for (int rank = 0; rank < schedule_.num_ranks(); ++rank) {
      for (const Task& task : schedule_.tasks[rank]) check_task(rank, task);
    }
    for (int stage = 0; stage < schedule_.num_stages(); ++stage) {
      for (int micro = 0; micro < schedule_.micro_batches; ++micro) check_complete(stage, micro);
    }
    task_times(schedule_, std::vector<StageTimes>(schedule_.rank_of_stage.size()));
  }

 private:
  [[noreturn]] void fail(const std::string& text) const {
    throw InputError(fmt::format("schedule '{}'{}", schedule_.name, text));
  }
  [[noreturn]] void fail_at(int rank, const Task& task, const std::string& text) const {
    fail(fmt::format(", rank {}: {} of stage {}, micro-batch {} {}", rank, name(task.kind), task.stage, task.micro, text));
  }

  uint8_t& count(TaskKind kind, int stage, int micro) {
    return count_[static_cast<size_t>(stage) * schedule_.micro_batches + micro][static_cast<size_t>(kind)];
  }

  void check_places() const {
    if (schedule_.micro_batches < 1) fail(fmt::format(": {} micro-batches, needs at least 1", schedule_.micro_batches));
    std::vector<bool> used(schedule_.tasks.size(), false);
    for (int stage = 0; stage < schedule_.num_stages(); ++stage) {
      const int rank = schedule_.rank_of_stage[stage];
      if (rank < 0 || rank >= schedule_.num_ranks()) {
        fail(fmt::format(": stage {} is placed on rank {}, but only {} ranks have tasks: place it on one of them", stage, rank,
                         schedule_.num_ranks()));
      }
      used[rank] = true;
    }
    for (int rank = 0; rank < schedule_.num_ranks(); ++rank) {
      if (!used[rank] && schedule_.tasks[rank].empty()) fail(fmt::format(", rank {}: holds no stage: use fewer ranks", rank));
    }
    if (used.empty()) fail(": no ranks: give it at least one rank's tasks");
  }

  void check_task(int rank, const Task& task) {
    if (task.stage < 0 || task.stage >= schedule_.num_stages() || task.micro < 0 || task.micro >= schedule_.micro_batches) {
      fail_at(rank, task,
              fmt::format("does not exist: stages end at {}, micro-batches at {}; remove it", schedule_.num_stages() - 1,
                          schedule_.micro_batches - 1));
    }
    if (const int owner = schedule_.rank_of_stage[task.stage]; owner != rank) {
      fail_at(rank, task, fmt::format("belongs to rank {}, which holds the stage: move it there", owner));
    }
    if (count(task.kind, task.stage, task.micro)++ > 0) fail_at(rank, task, "appears twice: remove one");
    if (task.kind != TaskKind::backward_input) check_order(rank, task);
  }

  void check_order(int rank, const Task& task) {
    int& last = (task.kind == TaskKind::forward ? last_forward_ : last_sum_)[task.stage];
    if (task.micro < last) {
      fail_at(rank, task,
              fmt::format("comes after that of micro-batch {}: a stage takes its micro-batches in ascending order", last));
    }
    last = task.micro;
  }

  void check_complete(int stage, int micro) {
    const bool split = count(TaskKind::backward_input, stage, micro) + count(TaskKind::backward_weight, stage, micro) > 0;
    for (const TaskKind kind : kKinds) {
      const bool wanted = kind == TaskKind::forward || (kind == TaskKind::backward ? !split : split);
      if (wanted == (count(kind, stage, micro) > 0)) continue;
      const Task task{kind, stage, micro};
      if (wanted) fail_at(schedule_.rank_of_stage[stage], task, "is missing: add it");
      fail_at(schedule_.rank_of_stage[stage], task, "is whole, but a part of it appears too: keep the whole or both parts");
    }
  }

  const Schedule& schedule_;
  std::vector<std::array<uint8_t, kKinds.size()>> count_;  ///< [stage][micro-batch], by TaskKind
  std::vector<int> last_forward_;                          ///< by stage: micro-batch of its last forward so far
  std::vector<int> last_sum_;                              ///< by stage: micro-batch of the last task that added gradients
};

}  // namespace

void check_schedule(const Schedule& schedule) { ScheduleCheck(schedule).run(); }

}  // namespace weft
