// Engine: runs one rank's list of instructions on real blocks and groups. It knows instructions, and no strategy.
//
// Blocks are detached from one another: the engine keeps each block's inputs and outputs, and runs its backward itself, last
// block first. A block's graph and activations are dropped as soon as its backward is done. Collectives are started where the
// list says so and waited for where an instruction needs them.
//
// Loss: the gradient of the loss's sum is seeded with 1 / nominal count (targets of a full global batch), so gradients keep the
// size of a mean's; what is left of the division by the true count reaches the updater as `divisor`, 1 when every target
// counted.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "weft/comm/group.h"
#include "weft/nn/flat.h"
#include "weft/program/program.h"

namespace weft {

/// One micro-batch as the engine takes it.
struct MicroBatch {
  Tensors inputs;
  at::Tensor target;
  int64_t first_sample = 0;  ///< position in the run, for random numbers
};

/// What the optimizer does for the engine. Gradients in the flat buffers are to be divided by `divisor`.
class Updater {
 public:
  virtual ~Updater() = default;
  /// Global gradient norm over all blocks; called once a step, before any update, where the program asks for it.
  virtual double norm(double divisor) = 0;
  virtual void update(int block, double divisor) = 0;
};

struct EngineOptions {
  Group replicas;  ///< ranks that hold the same weights and other micro-batches
  uint64_t seed = 0;
  int micro_batches = 1;          ///< this rank's, a step
  int slots = 1;                  ///< this rank's, a step
  int64_t first_micro_batch = 0;  ///< index of this rank's first one in the step
  int64_t all_micro_batches = 1;  ///< of all ranks
};

struct StepResult {
  double loss = 0.0;  ///< sum over count, over all ranks
  int64_t count = 0;  ///< targets that counted
  double norm = 0.0;  ///< global gradient norm, 0 where the program has no norm
};

struct EvaluationResult {
  double loss = 0.0;
  int64_t count = 0;
  int64_t hits = 0;  ///< 0 for a model without them
};

class Engine {
 public:
  using Next = std::function<MicroBatch()>;

  Engine(FlatModel& model, const InstructionList& list, Updater& updater, const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Throws NumericError when a loss is not finite, naming step, micro-batch and the first block whose output was not finite.
  /// Nothing is updated then on this rank.
  StepResult step(int64_t step, const Next& next);

  /// Forward over this rank's share of the evaluation set; `next` returns false when it is done. Collective over the replicas.
  EvaluationResult evaluate(const std::function<bool(MicroBatch&)>& next);

 private:
  struct Run;
  FlatModel& model_;
  const InstructionList& list_;
  Updater& updater_;
  EngineOptions options_;
  std::unique_ptr<Run> run_;
};

}  // namespace weft
