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

#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "weft/engine/engine_options.h"
#include "weft/engine/micro_batch.h"
#include "weft/engine/results.h"
#include "weft/engine/updater.h"
#include "weft/nn/flat/flat_model.h"
#include "weft/program/program.h"

namespace weft {

class EvaluationSum;
class StepRun;

/// Is called with what the last block puts out for a micro-batch, and where its first sample stands among all.
using VisitOutputs = std::function<void(int64_t first_sample, const Tensors& outputs)>;

/// Is called with a block and its optimizer state.
using VisitState = std::function<void(int block, std::vector<at::Tensor>& optimizer)>;

/// Runs one rank's list of a program, step by step.
class Engine {
 public:
  /// Takes the room for offloaded state that the list of `rank` needs. Model, program and updater must outlive the engine.
  /// Throws VerifyError for a program with an index out of range (program/check_program.h), InputError for one of another
  /// number of blocks.
  Engine(FlatModel& model, const Program& program, int rank, Updater& updater, const EngineOptions& options);
  ~Engine();

  /// Runs the list once, as step `step` of the run (counted from 0). Throws NumericError when a loss is not finite, naming
  /// step, micro-batch and the first block whose output was not finite; nothing is updated then on this rank.
  StepResult step(int64_t step, const NextMicroBatch& next);
  /// Goes on with a program that differs in its micro-batches alone, as said: the next steps have another global batch. The
  /// model was laid out for both: buffers are the same. Throws as the constructor does. It must outlive the engine.
  void change(const Program& program, const BatchShare& share);
  /// Sets whether steps keep times; where they do, a device is waited for after each instruction, so that its times are true.
  void trace(bool on);
  /// When each instruction of the list ran in the last step; empty where that was not traced.
  const std::vector<InstructionTime>& times() const;

  /// Draws the weights that this rank owns, block by block, and moves them out where they are offloaded; ranks that keep
  /// whole weights then gather them. Collective over the shards.
  void initialise();

  /// The whole block's weights in float32, [ranks of tp, what each has of them: frozen ones after the others], on every rank.
  /// Collective over the model's ranks.
  at::Tensor master_weights(int block);
  /// A buffer's values, on every rank. Collective over the model's ranks.
  at::Tensor buffer_values(const ModelBuffer& buffer);

  /// Visits the blocks that this rank holds, each with its optimizer state (Updater::state()), while all that the rank owns of
  /// them is in its memory: what is offloaded is brought back, a block at a time. State that no step has made yet is zero.
  void for_each_state(const VisitState& visit);
  /// The same for a visit that fills weights (FlatPart::master) and optimizer state. gather_whole() must follow, on all ranks.
  void fill_state(const VisitState& visit);
  /// Has ranks that keep whole weights gather them anew. Collective over the shards.
  void gather_whole();
  /// Targets of a micro-batch that gradients are scaled by, a power of two; 0: the next step's first micro-batch tells.
  int64_t nominal_targets() const;
  /// Takes that of an earlier run. All ranks do, or none.
  void set_nominal_targets(int64_t targets);

  /// Runs forward over this rank's part of the evaluation set, for each micro-batch of which `next` is called on first and last
  /// stages. The loss has the same bits whatever the number of ranks. Collective over all ranks; on all of them throws
  /// NumericError when a loss is not finite, and InputError when no target counted.
  EvaluationResult evaluate(const EvaluationPart& part, const NextMicroBatch& next);
  /// The same forward, of which every rank of a pipeline visits the outputs, as losses take them, first micro-batch to last:
  /// whole, where ranks of tp or cp have parts (whole_outputs.h), and sent on by the last stage. With `gathered` every rank
  /// visits those of all ranks, round by round: of each its next micro-batch, in the order of data-parallel ranks.
  void predict(const EvaluationPart& part, const NextMicroBatch& next, bool gathered, const VisitOutputs& visit);

 private:
  struct Forwarded;
  void with_state(int block, const VisitState& visit, bool changes);
  void gather_for(int block);
  Tensors forward(int block, const Tensors& inputs, const Context& context);
  Tensors forward_all(const MicroBatch& batch, bool mine, const Context& context);
  int64_t most_to_evaluate(int64_t mine) const;
  void forward_part(const EvaluationPart& part, const NextMicroBatch& next, c10::function_ref<void(Forwarded&)> done);
  void add_loss(const Forwarded& forwarded, EvaluationSum& sum) const;
  at::Device device() const;

  FlatModel& model_;
  const Program* program_;
  int rank_;
  EngineOptions options_;
  std::vector<int> stage_ranks_;  ///< by block: the index on the pipeline axis of the rank that runs it
  int pp_rank_;                   ///< this rank's
  std::unique_ptr<StepRun> run_;
};

}  // namespace weft
