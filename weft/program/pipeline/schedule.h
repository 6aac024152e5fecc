// Schedule: the ordered tasks of each rank of a pipeline.
//
// The model is cut into stages, runs of adjacent blocks; a rank holds one stage or several (chunks). A task runs one stage on
// one micro-batch. Plain data: a schedule knows neither blocks nor times, and build_program() turns it into instructions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/enum_names.h"

namespace weft {

/// Kind of a task.
enum class TaskKind : uint8_t {
  forward,
  backward,         ///< whole
  backward_input,   ///< the gradient of the stage's input only
  backward_weight,  ///< the deferred gradients of the weights
};
/// Names of task kinds.
inline constexpr EnumNames<TaskKind, 4> kTaskKinds("forward", "backward", "backward_input", "backward_weight");

/// One stage on one micro-batch.
struct Task {
  TaskKind kind = TaskKind::forward;             ///< kind of work
  int stage = 0;                                 ///< stage, from 0, where micro-batches enter
  int micro = 0;                                 ///< micro-batch, from 0
  bool operator==(const Task&) const = default;  ///< memberwise
};

/// The tasks of every rank.
struct Schedule {
  std::string name;                      ///< name in reports
  int micro_batches = 1;                 ///< micro-batches per step
  std::vector<int> rank_of_stage;        ///< stage -> place on the pipeline axis
  std::vector<std::vector<Task>> tasks;  ///< by place on the pipeline axis, in order of execution

  int num_stages() const { return static_cast<int>(rank_of_stage.size()); }  ///< stages of the model
  int num_ranks() const { return static_cast<int>(tasks.size()); }           ///< ranks of the pipeline
};

/// Name of a task kind: "backward_input".
inline std::string_view name(TaskKind kind) { return kTaskKinds.of(kind); }

}  // namespace weft
