// PipelineCosts: inputs of a schedule search.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/program/pipeline/task_times.h"

namespace weft {

/// The time that the search minimises.
enum class Goal : uint8_t {
  longest_span,  ///< each rank updates, and begins the next step, as soon as it is done
  makespan,      ///< all ranks end a step together: updates need the norm of all gradients
};

/// Times and limits of a pipeline with one stage per rank.
struct PipelineCosts {
  std::vector<StageTimes> stages = {};  ///< times of stage s, on rank s
  double transfer = 0.0;                ///< as in task_times()
  double max_activations = 0.0;         ///< limit per rank, as peak_activations() counts them; 0: no limit
  double kept_share = 1.0;              ///< as in peak_activations()

  Goal goal = Goal::longest_span;  ///< search target

  int num_ranks() const { return static_cast<int>(stages.size()); }  ///< ranks of the pipeline
};

}  // namespace weft
