// State of the engine during one step: activations, pending works, losses, partial sums of slots.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/engine/block_call.h"
#include "weft/engine/engine_options.h"
#include "weft/engine/in_flight.h"
#include "weft/engine/pending_results.h"
#include "weft/engine/step_checks.h"
#include "weft/engine/step_clock.h"
#include "weft/engine/step_values.h"
#include "weft/engine/transfers.h"
#include "weft/engine/updater.h"
#include "weft/engine/whole_weights.h"
#include "weft/program/program.h"

namespace weft {

struct StepFacts;

/// One step of one rank.
class StepRun {
 public:
  StepRun(FlatModel& model, const Program& program, Updater& updater, const EngineOptions& options);
  ~StepRun();
  void change(const Program& program);  ///< as Engine::change() says
  /// Gives the device what changes from step to step; before begin().
  void place(int64_t step, const InstructionList& list);
  /// Begins a step. Before the first step of a run, ranks that compute losses agree on the loss scaling, which may call `next`.
  void begin(int64_t step, const InstructionList& list, const NextMicroBatch& next);
  void put_away();  ///< offloads what a step that failed has left in memory: before anything else reloads state
  /// Before begin() repeats a step that failed with FailedStep: from now on all numbers are read where they arise.
  void repeat();
  void execute(const Instruction& instruction, int index, const NextMicroBatch& next);
  /// Waits for works that no instruction waited for (gathers of updated weights), settles the loss if no update did, and adds
  /// the step to `results`.
  void finish();
  at::Tensor finish_captured();  ///< the same for a step that is captured: its numbers, which the device will have made
  /// The device has been given a captured step, with these numbers; `again`: not for the first time.
  void add_replayed(int64_t step, const at::Tensor& numbers, bool again);
  std::string why_not_captured() const;  ///< why the step cannot be captured; empty: it can
  /// Takes the oldest result that has not been taken; Engine::settle().
  StepResult settle();
  std::vector<at::Tensor>& optimizer_state(int block) { return updater_.state(block); }
  bool offloads_optimizer() const { return options_.offload.optimizer != nullptr; }
  /// Offloads a block's optimizer state; if unchanged, only frees it.
  void offload_optimizer(int block, bool changed);
  Work reload_optimizer(int block);  ///< or creates the state

  int64_t nominal_targets() const { return nominal_targets_; }  ///< 0: not known yet, or not on this rank
  void set_nominal_targets(int64_t targets) { nominal_targets_ = targets; }

  BlockCalls calls;
  WholeWeights weights;
  Transfers transfers, forward_transfers;  ///< of steps; of evaluations and predictions
  StepClock clock;
  PendingResults results;
  std::unique_ptr<StepChecks> checks;  ///< null: steps are not checked

 private:
  void wait_for_all();
  class Calls;
  class Joining;
  class Rows;
  void wait_for(const Instruction& instruction);
  Work start(const Instruction& instruction, int index, const NextMicroBatch& next);
  void load(int micro, const NextMicroBatch& next);
  void forward(int block, int micro);
  bool takes_targets(int block) const;
  void release_target(InFlight& flight);
  void drop(int block, int micro);
  LossValue loss_of(const Tensors& outputs, const at::Tensor& target, int micro, int64_t piece);
  at::Tensor loss_gradient(const at::Tensor& sum);
  void loss(int micro);
  void backward(int block, int micro);
  void backward_input(int block, int micro);
  void backward_weight(int block, int micro);
  Work send(const Instruction& instruction);
  Work receive(const Instruction& instruction);
  void receive_sum(const Instruction& instruction, const std::string& what);
  int64_t first_sample(int micro) const;  ///< position in the run of the micro-batch's first sample
  int64_t first_sample_of_step() const;
  Context context_of(int micro) const;
  CheckedCall checked_call(const char* pass, int block, int micro) const;
  void expect_gradients(int block, const Tensors& gradients) const;
  void settle(int block, InFlight& flight);
  void combine(const Instruction& instruction);
  Work reduce_scatter(const Instruction& instruction);
  Work reduce(const Instruction& instruction);
  Work reduce_tied(int block, const Group& group, const std::string& what);
  Work reduce_partial(const Instruction& instruction);
  void join_uses(int block);
  Work reduce_loss(const Instruction& instruction);
  void agree_on_targets(const NextMicroBatch& next);
  void join_losses();
  void part_losses(at::Tensor& losses);
  bool on_device() const { return !model_.options().device.is_cpu(); }
  std::string why_not_late() const;
  void settle_loss();
  void take_losses(at::Tensor losses);
  StepFacts facts() const;
  void judge_on_device(const at::Tensor& found, bool by_norm);
  at::Tensor read(const at::Tensor& found);
  void norm(const Instruction& instruction);
  void norms_of_tensors(const Instruction& instruction);
  Work gather_gradients(const Instruction& instruction);
  void update(int index);
  void finish_update(int block);
  void offload(const Instruction& instruction);
  Work reload(const Instruction& instruction);
  void offload_input(int block, InFlight& flight);
  void offload_memory(int block, const at::Tensor& input, InFlight& flight);
  Work reload_input(int block, InFlight& flight);
  Tensors run_block(int block, InFlight& flight, const Context& context);
  const Group& group_of(const Instruction& instruction) const;

  FlatModel& model_;
  const Program* program_;
  const InstructionList* list_ = nullptr;  ///< of this step
  Updater& updater_;
  const EngineOptions& options_;
  std::vector<int> stage_ranks_;  ///< Engine::stage_ranks_
  int64_t step_ = 0;
  int updated_until_ = 0;                  ///< instructions before it have updated what they update
  int loaded_ = 0;                         ///< number of micro-batches taken so far in the step
  std::optional<MicroBatch> first_batch_;  ///< first micro-batch of the run, until it is loaded
  std::vector<InFlight> in_flight_;
  std::vector<Work> works_;            ///< pending work of each instruction
  std::vector<at::Tensor> stashes_;    ///< partial sums of finished slots, by level: [all gradients]
  std::vector<bool> accumulated_;      ///< by block: the owned gradients hold a sum already
  std::vector<bool> uses_joined_;      ///< by block: the sums of its uses have been added up
  at::Tensor squares_;                 ///< [1, kSumWords]: squares of this rank's small batches' gradients, for a noise scale
  at::Tensor losses_;                  ///< [3, pieces of all micro-batches] float64: sums, counts or weights, nominal targets
  int64_t nominal_targets_ = 0;        ///< targets of a nominal micro-batch, on ranks that compute losses; 0: not known yet
  const Group* loss_group_ = nullptr;  ///< that has summed the losses of this step
  at::Tensor loss_gradient_;           ///< loss_gradient() of this step, if the device keeps the loss scale
  at::Tensor numbers_;                 ///< made on the device (step_numbers.h), if the host reads them after the step
  at::Tensor refusal_;                 ///< [] bool on the device, with them: no updates are made
  StepValues values_;                  ///< on a device
  bool loss_settled_ = false, reads_late_ = false;
  double divisor_ = 1.0;
  StepResult result_;
  std::vector<std::vector<int>> optimizer_buffers_;  ///< by block and state; empty if not offloaded
};

}  // namespace weft
