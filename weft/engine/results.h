// What steps and evaluations tell.
#pragma once

#include <cstdint>
#include <vector>

namespace weft {

/// What came of a step; the same on every rank.
struct StepResult {
  double loss = 0.0;               ///< sum over count, over all ranks
  int64_t count = 0;               ///< targets that counted
  double norm = 0.0;               ///< global gradient norm, 0 where the program has no norm
  double small_squares = 0.0;      ///< mean squared gradient norm of the small batches (passes/noise_squares.h), 0 without them
  bool skipped = false;            ///< fp16: a gradient was not finite, and nothing was updated
  std::vector<double> votes = {};  ///< Votes, summed over all ranks
};

/// When an instruction of the last traced step ran, by a clock that all processes of a host share.
struct InstructionTime {
  double start_s = 0.0;  ///< after what it waited for
  double end_s = 0.0;    ///< where it runs beside others: when somebody was done waiting for it
};

/// What a rank evaluates, or predicts: the set's micro-batches [first, first + count), the same on all ranks of a pipeline.
struct EvaluationPart {
  int64_t first = 0;           ///< the first micro-batch, counted over all ranks
  int64_t count = 0;           ///< micro-batches; may be none
  int64_t micro_batch = 1;     ///< samples of one, by which random numbers are keyed
  int64_t steps_done = 0;      ///< for these too, and for errors
  int64_t samples_before = 0;  ///< that come before the set's first micro-batch, for these too
};

/// What came of an evaluation; the same on every rank.
struct EvaluationResult {
  double loss = 0.0;  ///< sum over count, over all ranks
  int64_t count = 0;  ///< targets that counted
  int64_t hits = 0;   ///< those of them that were predicted right; 0 for a model without Model::hits
  int64_t top5 = 0;   ///< those that were among the five likeliest; 0 for a model without Model::top5
};

}  // namespace weft
