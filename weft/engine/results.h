// Results of steps and evaluations.
#pragma once

#include <cstdint>
#include <vector>

namespace weft {

/// Result of a step; the same on every rank.
struct StepResult {
  double loss = 0.0;               ///< sum of losses / count, over all ranks
  int64_t count = 0;               ///< targets that counted; of a loss with weights their weight, without its fraction
  double norm = 0.0;               ///< global gradient norm, 0 where the program has no norm
  double small_squares = 0.0;      ///< mean squared gradient norm of the small batches (passes/noise_squares.h), or 0
  bool skipped = false;            ///< fp16: a gradient was not finite, and nothing was updated
  double divisor = 1.0;            ///< gradients in memory over it are the mean loss's, not clipped
  std::vector<double> votes = {};  ///< Votes, summed over all ranks
};

/// When an instruction of the last traced step ran, on a clock shared by all processes of a host.
struct InstructionTime {
  double start_s = 0.0;   ///< after its waits
  double issued_s = 0.0;  ///< when the rank went on to what comes next
  double end_s = 0.0;     ///< if it overlaps others: when a wait for it returned
  double inner_s = 0.0;   ///< on a CPU: what its block spent in collectives over tp and cp
};

/// Micro-batches [first, first + count) of the set that a rank evaluates or predicts; the same on all ranks of a pipeline.
struct EvaluationPart {
  int64_t first = 0;           ///< the first micro-batch, counted over all ranks
  int64_t count = 0;           ///< micro-batches; may be 0
  int64_t micro_batch = 1;     ///< samples per micro-batch, used to key random numbers
  int64_t steps_done = 0;      ///< training steps done, for random keys and errors
  int64_t samples_before = 0;  ///< samples before the set's first micro-batch, for random keys
};

/// Result of an evaluation; the same on every rank.
struct EvaluationResult {
  double loss = 0.0;  ///< sum of losses / count, or weight, over all ranks
  int64_t count = 0;  ///< targets that counted
  int64_t hits = 0;   ///< counted targets predicted right; 0 for a model without Model::hits
  int64_t top5 = 0;   ///< counted targets among the five most likely classes; 0 for a model without Model::top5
};

}  // namespace weft
