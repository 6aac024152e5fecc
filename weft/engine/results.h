// What steps and evaluations tell.
#pragma once

#include <cstdint>

namespace weft {

struct StepResult {
  double loss = 0.0;     ///< sum over count, over all ranks
  int64_t count = 0;     ///< targets that counted
  double norm = 0.0;     ///< global gradient norm, 0 where the program has no norm
  bool skipped = false;  ///< fp16: a gradient was not finite, and nothing was updated
};

/// When an instruction of the last traced step ran, by a clock that all processes of a host share. Of one that runs beside
/// others: to the moment at which somebody was done waiting for it.
struct InstructionTime {
  double start_s = 0.0;
  double end_s = 0.0;
};

/// What a rank evaluates: the set's micro-batches [first, first + count), the same on all ranks of a pipeline.
struct EvaluationPart {
  int64_t first = 0;
  int64_t count = 0;
  int64_t steps_done = 0;  ///< for errors
};

struct EvaluationResult {
  double loss = 0.0;
  int64_t count = 0;
  int64_t hits = 0;  ///< 0 for a model without them
};

}  // namespace weft
