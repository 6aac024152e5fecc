// Engine: runs one rank's instruction list on real blocks and groups; knows instructions, not strategies.
//
// Autograd graphs of blocks are separate: the engine keeps the blocks' inputs and outputs and runs each backward itself, last
// block first. A block's graph and activations are freed once its backward is done. Collectives start where the list says and
// are waited for where an instruction needs them.
//
// Loss: the gradient of every loss's sum is seeded with 1 / nominal count, so gradients are about the size of a mean's, as
// narrow types need; the updater divides by the rest of the true count, `divisor`. The nominal count is M (micro-batches in the
// global batch) times the targets of the run's first micro-batch, rounded up to a power of two; `divisor` is 1 if all
// micro-batches have that many targets and all count. Ranks that compute losses agree on it before the first step: one of them
// broadcasts it, in 8 bytes.
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/engine/engine_options.h"
#include "weft/engine/micro_batch.h"
#include "weft/engine/results.h"
#include "weft/engine/updater.h"
#include "weft/nn/flat/flat_model.h"
#include "weft/program/profile/measured_step.h"
#include "weft/program/program.h"

namespace weft {

class EvaluationSum;
class StepChecks;
class StepGraph;
class StepRun;

/// Called with the last block's outputs for a micro-batch and the place of its first sample in the set.
using VisitOutputs = std::function<void(int64_t first_sample, const Tensors& outputs)>;

/// Called with a block and its optimizer state.
using VisitState = std::function<void(int block, std::vector<at::Tensor>& optimizer)>;

/// Runs one rank's list of a program, step by step.
class Engine {
 public:
  /// Reserves space for offloaded state. Model, program and updater must outlive the engine. Throws VerifyError for a program
  /// with an index out of range (program/check_program.h), InputError for a program with a different number of blocks.
  Engine(FlatModel& model, const Program& program, int rank, Updater& updater, const EngineOptions& options);
  ~Engine();

  /// Runs the list once, as step `step` of the run (counted from 0). Throws FailedStep if a loss or a gradient is not finite,
  /// on all ranks if the program reduces the losses; nothing is updated then. Throws InputError while a submitted step is not
  /// settled.
  StepResult step(int64_t step, const NextMicroBatch& next);
  /// Issues a step without waiting for its numbers, where updates can do without the host: on a device, without custom
  /// optimizers that need it (ElementWiseUpdate::takes_gate()), and parameters that a step may leave out. Otherwise as step(),
  /// with its errors.
  void submit(int64_t step, const NextMicroBatch& next);
  /// Returns the result of the oldest step submitted that has not been settled; waits for its numbers. Throws FailedStep if it
  /// was refused: neither it nor any step after it, which are dropped, has updated anything. Throws InputError without a step.
  StepResult settle();
  int unsettled() const;  ///< number of steps submitted and not settled
  int unread() const;     ///< of those, steps whose numbers the host does not know
  /// Runs a step that threw FailedStep again, on the same micro-batches, with its operators watched, and throws BadStep
  /// (finding.h): what was wrong, and what this rank found. Collective over the model's ranks, each of which threw.
  [[noreturn]] void repeat(int64_t step, const NextMicroBatch& next);
  /// Continues with a program that differs only in its micro-batches, for steps with a different global batch. The model was
  /// laid out for both: buffers are the same. Throws as the constructor does, and while a step's numbers have not been read.
  /// `program` must outlive the engine.
  void change(const Program& program, const BatchShare& share);
  /// From now on steps are captured and replayed (step_graph.h), after two more that prepare it; one that is traced is not, and
  /// a program of change() is captured anew. Throws InputError, also from later steps, where a step cannot be captured, which
  /// says why.
  void use_graph();
  /// Checks the steps from now on: keeps ranges by block, and with `watches_operators` the first value that is not finite. The
  /// host then reads a step's numbers in it. Steps are several times slower; their bits are the same.
  void check(bool watches_operators);
  const StepChecks* checks() const;  ///< of the last step; null: not checked
  /// Turns recording of instruction times on or off; on a device the host then waits before each step, not within it.
  void trace(bool on);
  /// The same for the times of operators.
  void trace_operators(bool on) { traces_operators_ = on; }
  /// When each instruction of the list ran in the last step; empty if it was not traced.
  const std::vector<InstructionTime>& times() const;
  /// The operators of the last step, if they were traced.
  const std::vector<MeasuredOperator>& operators() const { return operators_; }

  /// Initialises this rank's weights, block by block, and offloads them if the program does; ranks that keep whole weights then
  /// gather them. Collective over the shards.
  void initialise();

  /// Returns the block's whole weights in float32, [tp ranks, weights of each: frozen ones last], on every rank. Collective
  /// over the model's ranks.
  at::Tensor master_weights(int block);
  /// Returns a buffer's values on every rank. Collective over the model's ranks.
  at::Tensor buffer_values(const ModelBuffer& buffer);

  /// Visits this rank's blocks with their optimizer state (Updater::state()). During a visit, all that the rank owns of the
  /// block is in memory: offloaded state is reloaded one block at a time. State that no step has created yet is zero.
  void for_each_state(const VisitState& visit);
  /// Like for_each_state(), for a visit that fills weights (FlatPart::master) and optimizer state. gather_whole() must follow,
  /// on all ranks.
  void fill_state(const VisitState& visit);
  /// Gathers the weights again on ranks that keep them whole. Collective over the shards.
  void gather_whole();
  /// Targets per micro-batch that gradients are scaled by, a power of two; 0 before the first step sets it.
  int64_t nominal_targets() const;
  /// Restores nominal_targets() of an earlier run. Call it on all ranks or on no rank.
  void set_nominal_targets(int64_t targets);

  /// Runs forward over this rank's part of the evaluation set, calling `next` for each micro-batch on first and last stages.
  /// The loss has the same bits whatever the number of ranks. Collective over all ranks; throws on all of them: NumericError if
  /// a loss is not finite, InputError if no target counted.
  EvaluationResult evaluate(const EvaluationPart& part, const NextMicroBatch& next);
  /// Runs the same forward. Every rank of a pipeline visits the outputs in the form that losses take, first micro-batch to
  /// last; parts on ranks of tp or cp are joined (whole_outputs.h), and the last stage broadcasts the outputs. With `gathered`
  /// every rank visits the outputs of all ranks, in rounds: the next micro-batch of each data-parallel rank, in rank order.
  void predict(const EvaluationPart& part, const NextMicroBatch& next, bool gathered, const VisitOutputs& visit);

 private:
  struct Forwarded;
  void check_graph() const;
  void forget_graph();
  bool submit_graph(int64_t step, const InstructionList& list, const NextMicroBatch& next);
  void with_state(int block, const VisitState& visit, bool changes);
  void gather_for(int block);
  Tensors forward(int block, const Tensors& inputs, const Context& context);
  Tensors forward_all(const MicroBatch& batch, bool mine, const Context& context);
  int64_t most_to_evaluate(int64_t mine) const;
  void forward_part(const EvaluationPart& part, const NextMicroBatch& next, bool for_losses,
                    c10::function_ref<void(Forwarded&)> done, c10::function_ref<void()> read);
  void add_loss(const Forwarded& forwarded, EvaluationSum& sum) const;
  at::Device device() const;

  FlatModel& model_;
  const Program* program_;
  int rank_;
  EngineOptions options_;
  std::vector<int> stage_ranks_;  ///< by block: pipeline-axis index of the rank that runs the block
  int pp_rank_;                   ///< index of this rank
  std::unique_ptr<StepRun> run_;
  std::unique_ptr<StepGraph> graph_;  ///< null: not asked for
  bool traces_operators_ = false;
  std::vector<MeasuredOperator> operators_;  ///< of the last step
  int prepared_ = 0;                         ///< steps issued since the program changed
  std::string first_draw_ = {};              ///< what drew from LibTorch's generators in a step (DrawWatch); empty: nothing
};

}  // namespace weft
