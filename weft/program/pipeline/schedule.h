// Schedule: what each rank of a pipeline runs, in order.
//
// The model is cut into stages, runs of adjacent blocks; a rank holds one stage or several (chunks). A task runs one stage on
// one micro-batch. Plain data: a schedule knows neither blocks nor times, and build_program() makes instructions of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

enum class TaskKind : uint8_t {
  forward,
  backward,         ///< whole
  backward_input,   ///< the gradient of the stage's input only
  backward_weight,  ///< the weights' gradients that were left
};

struct Task {
  TaskKind kind = TaskKind::forward;
  int stage = 0;
  int micro = 0;
  bool operator==(const Task&) const = default;
};

struct Schedule {
  std::string name;
  int micro_batches = 1;
  std::vector<int> rank_of_stage;        ///< stage -> place on the pipeline axis
  std::vector<std::vector<Task>> tasks;  ///< by place on the pipeline axis, in order of execution

  int num_stages() const { return static_cast<int>(rank_of_stage.size()); }
  int num_ranks() const { return static_cast<int>(tasks.size()); }
};

std::string_view name(TaskKind kind);

}  // namespace weft
