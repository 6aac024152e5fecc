// PipelineCosts: what a search for a schedule is told about the pipeline it is for.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/program/pipeline/task_times.h"

namespace weft {

/// The time that is to be short.
enum class Goal : uint8_t {
  longest_span,  ///< a rank updates and begins the next step when it is done itself
  makespan,      ///< all ranks end a step together: the norm of all gradients is needed before an update
};

/// Times and limits of a pipeline with a stage a rank.
struct PipelineCosts {
  std::vector<StageTimes> stages = {};  ///< of stage s, on rank s
  double transfer = 0.0;                ///< as in task_times()
  double max_activations = 0.0;         ///< that a rank may hold, as peak_activations() counts them; 0: no limit
  double kept_share = 1.0;              ///< as in peak_activations()

  Goal goal = Goal::longest_span;  ///< what is searched for

  int num_ranks() const { return static_cast<int>(stages.size()); }  ///< of the pipeline
};

}  // namespace weft
