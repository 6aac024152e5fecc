// Schedule: what each rank of a pipeline runs, in order.
//
// The model is cut into stages, runs of adjacent blocks; a rank holds one stage or several (chunks). A task runs one stage on
// one micro-batch. Plain data: a schedule knows neither blocks nor times, and build_program() makes instructions of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/enum_names.h"

namespace weft {

/// What a task does.
enum class TaskKind : uint8_t {
  forward,
  backward,         ///< whole
  backward_input,   ///< the gradient of the stage's input only
  backward_weight,  ///< the weights' gradients that were left
};
/// The words for kinds of tasks.
inline constexpr EnumNames<TaskKind, 4> kTaskKinds("forward", "backward", "backward_input", "backward_weight");

/// One stage on one micro-batch.
struct Task {
  TaskKind kind = TaskKind::forward;             ///< in which direction
  int stage = 0;                                 ///< from 0, where micro-batches come in
  int micro = 0;                                 ///< micro-batch, from 0
  bool operator==(const Task&) const = default;  ///< alike in all
};

/// The tasks of every rank.
struct Schedule {
  std::string name;                      ///< for people
  int micro_batches = 1;                 ///< of a step
  std::vector<int> rank_of_stage;        ///< stage -> place on the pipeline axis
  std::vector<std::vector<Task>> tasks;  ///< by place on the pipeline axis, in order of execution

  int num_stages() const { return static_cast<int>(rank_of_stage.size()); }  ///< of the model
  int num_ranks() const { return static_cast<int>(tasks.size()); }           ///< of the pipeline
};

/// The word for a kind of task: "backward_input".
inline std::string_view name(TaskKind kind) { return kTaskKinds.of(kind); }

}  // namespace weft
