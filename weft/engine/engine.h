// Engine: runs one rank's list of instructions on real blocks and groups. It knows instructions, and no strategy.
//
// Blocks are detached from one another: the engine keeps each block's inputs and outputs, and runs its backward itself, last
// block first. A block's graph and activations are dropped as soon as its backward is done. Collectives are started where the
// list says so and waited for where an instruction needs them.
//
// Loss: the gradient of every loss's sum is seeded with 1 / nominal count, so gradients keep about the size of a mean's, which
// narrow types need; what is left of the division by the true count reaches the updater as `divisor`. The nominal count is M
// times a power of two, the targets of the run's first micro-batch rounded up, for M micro-batches in the global batch:
// micro-batches may differ in their targets, and `divisor` is 1 where all have that many and all count. Ranks that compute
// losses agree on it before the first step, in 8 bytes from one of them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "weft/base/exact_sum.h"
#include "weft/comm/group.h"
#include "weft/engine/tier.h"
#include "weft/nn/flat.h"
#include "weft/program/program.h"

namespace weft {

/// One micro-batch as the engine takes it.
struct MicroBatch {
  Tensors inputs;
  at::Tensor target;
};

/// What the optimizer does for the engine. Gradients in the flat buffers are to be divided by `divisor`.
class Updater {
 public:
  virtual ~Updater() = default;
  /// Adds the squares of the gradients that this rank owns. Called once a step, before any update, where the program asks for
  /// the norm.
  virtual void add_squares(ExactSum& sum) = 0;
  /// The global norm. False: this step's updates are left out (fp16, when a gradient was not finite).
  virtual bool accept(double norm) = 0;
  virtual void update(int block, double divisor) = 0;
  /// What the optimizer keeps for a block, for offloading.
  virtual std::vector<at::Tensor>& state(int block) = 0;
  /// What losses are multiplied by before backward, and gradients divided by again: fp16's loss scale.
  virtual double loss_scale() const { return 1.0; }
};

/// Where state that the program evicts goes.
struct Tiers {
  std::shared_ptr<Tier> activations, weights, optimizer;  ///< null where the program moves none
};

struct EngineOptions {
  Group data = {};                 ///< ranks that read different samples
  Group replicas = {};             ///< ranks that hold the same part of the state
  Group shards = {};               ///< ranks that share one replica's state
  Group inner = {};                ///< those of them that keep whole weights divided from forward to backward
  Group pipeline = {};             ///< ranks that hold the stages of one pipeline
  Group model = {};                ///< ranks that together hold one replica's state: pipeline and shards
  Group world = {};                ///< all ranks
  std::map<int, Group> tied = {};  ///< by block that several stages hold: their ranks
  Tiers tiers = {};
  uint64_t seed = 0;
  bool recompute_parts = false;   ///< Context::recompute_parts
  int64_t first_micro_batch = 0;  ///< index of this rank's first one in the step
  int64_t all_micro_batches = 1;  ///< of all data-parallel ranks
  int64_t micro_batch = 1;        ///< samples of one, by which random numbers are keyed
};

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

class EvaluationSum;

class Engine {
 public:
  /// Hands out this rank's micro-batches, first to last.
  using Next = std::function<MicroBatch()>;

  /// Runs the list of `rank`. Takes the room in the tiers that the program needs. Throws VerifyError for a program with an
  /// index out of range (program/check_program.h), InputError for one of another number of blocks.
  Engine(FlatModel& model, const Program& program, int rank, Updater& updater, const EngineOptions& options);
  ~Engine();

  /// Throws NumericError when a loss is not finite, naming step, micro-batch and the first block whose output was not finite.
  /// Nothing is updated then on this rank.
  StepResult step(int64_t step, const Next& next);
  /// Steps keep times from now on; a device is waited for after each instruction, so that its times are true.
  void trace(bool on);
  /// Of the last step, by instruction; empty where it was not traced.
  const std::vector<InstructionTime>& times() const;

  /// Draws the weights that this rank owns, block by block, and moves them to their tier where they have one; ranks that keep
  /// whole weights then gather them. Collective over the shards.
  void initialise();

  /// The whole block's weights in float32, [numel, frozen ones after the others], on every rank. Collective over the model's
  /// ranks.
  at::Tensor master_weights(int block);

  /// Forward over this rank's part of the evaluation set, for each micro-batch of which `next` is called on first and last
  /// stages. The loss has the same bits whatever the number of ranks. Collective over all ranks; on all of them throws
  /// NumericError when a loss is not finite, and InputError when no target counted.
  EvaluationResult evaluate(const EvaluationPart& part, const Next& next);

 private:
  struct Run;
  void gather_for(int block);
  Tensors forward(int block, const Tensors& inputs);
  Tensors forward_all(const MicroBatch& batch, bool mine);
  int64_t most_to_evaluate(int64_t mine) const;
  void evaluate_one(int64_t place, const MicroBatch& batch, bool mine, EvaluationSum& sum);
  at::Device device() const;

  FlatModel& model_;
  const Program& program_;
  int rank_;
  EngineOptions options_;
  std::vector<int> runner_;  ///< by block: the place on the pipeline axis of the rank that runs it
  int place_;                ///< this rank's
  std::unique_ptr<Run> run_;
};

}  // namespace weft
