// What one step of the engine holds while it runs: activations, works under way, losses, partial sums of slots.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/exact_sum.h"
#include "weft/engine/block_call.h"
#include "weft/engine/engine_options.h"
#include "weft/engine/micro_batch.h"
#include "weft/engine/results.h"
#include "weft/engine/step_clock.h"
#include "weft/engine/transfers.h"
#include "weft/engine/updater.h"
#include "weft/engine/whole_weights.h"
#include "weft/nn/deferred_gradients.h"
#include "weft/nn/graph.h"
#include "weft/program/program.h"

namespace weft {

/// One step of one rank.
class StepRun {
 public:
  StepRun(FlatModel& model, const Program& program, Updater& updater, const EngineOptions& options);

  /// Goes on with another program, as Engine::change() says.
  void change(const Program& program);
  /// Begins a step. Before the first of a run, ranks that compute losses agree on what to scale them by, for which `next` is
  /// asked.
  void begin(int64_t step, const InstructionList& list, const NextMicroBatch& next);
  void execute(const Instruction& instruction, int index, const NextMicroBatch& next);
  /// Waits for what nobody in the list waited for, gathers of updated weights, and takes the loss where no update has.
  void finish();
  StepResult result() const { return result_; }

  /// The optimizer's tensors for a block.
  std::vector<at::Tensor>& optimizer_state(int block) { return updater_.state(block); }
  bool offloads_optimizer() const { return options_.offload.optimizer != nullptr; }
  /// Moves a block's optimizer state out; what did not change while it was here is only let go.
  void offload_optimizer(int block, bool changed);
  /// Brings a block's optimizer state back, or makes it.
  void reload_optimizer(int block);

  int64_t nominal_targets() const { return nominal_targets_; }  ///< 0: not known yet, or not to this rank
  void set_nominal_targets(int64_t targets) { nominal_targets_ = targets; }

  BlockCalls calls;
  WholeWeights weights;
  Transfers transfers;
  StepClock clock;

 private:
  class Calls;
  class Joining;
  class Rows;

  /// A tensor of a block's input while it is offloaded.
  struct Offloaded {
    MemoryLayout layout;
    at::TensorOptions options;
    bool requires_grad = false;
    std::shared_ptr<OffloadRoom> room = {};  ///< null: it has stayed, as something else holds its memory too
  };

  /// A micro-batch in this rank's blocks.
  struct InFlight {
    MicroBatch batch;                                 ///< where this rank loads it
    std::vector<Tensors> inputs;                      ///< of each block, detached; gradients arrive in them
    std::vector<Tensors> outputs;                     ///< of each block; none after a drop, or once their memory is let go
    std::vector<GraphEnds> ends;                      ///< of each block's graph, at its outputs; none after a drop
    std::vector<at::Tensor> statistics;               ///< of each block: the change its forward made, until its backward
    std::map<int, std::vector<Offloaded>> offloaded;  ///< by block
    std::vector<Tensors> gradients;                   ///< of each block's output, once known
    std::map<int, DeferredGradients> deferred;        ///< by block: what a split backward has left to do
    std::map<int, Work> sent;                         ///< by block: its output on its way, and kept until it has arrived
  };

  Work start(const Instruction& instruction, const NextMicroBatch& next);
  void load(int micro, const NextMicroBatch& next);
  void forward(int block, int micro);
  void drop(int block, int micro);
  LossValue loss_of(const Tensors& outputs, const at::Tensor& target, int micro, int64_t piece);
  void loss(int micro);
  void backward(int block, int micro);
  void backward_input(int block, int micro);
  void backward_weight(int block, int micro);
  Work send(const Instruction& instruction);
  Work receive(const Instruction& instruction);
  void receive_sum(const Instruction& instruction, const std::string& what);
  int64_t first_sample(int micro) const;  ///< its position in the run
  Context context_of(int micro) const;
  void expect_gradients(int block, const Tensors& gradients) const;
  static Tensors take_outputs(int block, InFlight& flight);
  void settle(int block, InFlight& flight);
  void combine(const Instruction& instruction);
  Work reduce_scatter(const Instruction& instruction);
  Work reduce(const Instruction& instruction);
  Work reduce_tied(int block, const Group& group, const std::string& what);
  void join_uses(int block);
  Work reduce_loss(const Instruction& instruction);
  void agree_on_targets(const NextMicroBatch& next);
  double nominal_count(double targets) const;
  double mean_small_squares() const;
  void join_losses();
  void part_losses();
  void settle_loss();
  void norm(const Instruction& instruction);
  int64_t largest_gradient(const Instruction& instruction);
  void add_up(const Instruction& instruction, std::vector<ExactSum>& sums, std::string_view what);
  Work gather_gradients(const Instruction& instruction);
  void update(const Instruction& instruction);
  void update_block(int block);
  void offload(const Instruction& instruction);
  void reload(const Instruction& instruction);
  void offload_input(int block, InFlight& flight);
  void offload_memory(int block, const at::Tensor& input, InFlight& flight);
  void reload_input(int block, InFlight& flight);
  Tensors run_block(int block, InFlight& flight, const Context& context);
  [[noreturn]] void report_not_finite(int micro, double loss);
  bool output_is_finite(int block, InFlight& flight);
  const Group& group_of(const Instruction& instruction) const;

  FlatModel& model_;
  const Program* program_;
  Updater& updater_;
  const EngineOptions& options_;
  std::vector<int> stage_ranks_;  ///< Engine::stage_ranks_
  int64_t step_ = 0;
  int loaded_ = 0;                         ///< micro-batches taken so far in the step
  std::optional<MicroBatch> first_batch_;  ///< of the run, from its start till its load
  std::vector<InFlight> in_flight_;
  std::vector<Work> works_;          ///< by instruction
  std::vector<at::Tensor> stashes_;  ///< partial sums of finished slots, by level: [all gradients]
  std::vector<bool> accumulated_;    ///< by block: the owned gradients hold a sum already
  std::vector<bool> uses_joined_;    ///< by block: the sums of its uses are added up
  ExactSum squares_;                 ///< of the small batches' gradients: what this rank has of them, then all
  at::Tensor losses_;                ///< [3, pieces of all micro-batches] float64 on the host: sums, counts, nominal targets
  int64_t nominal_targets_ = 0;      ///< of a micro-batch, on ranks that compute losses; 0: not known yet
  bool loss_summed_ = false, loss_settled_ = false;
  StepResult result_;
  double divisor_ = 1.0;
  std::vector<std::vector<int>> optimizer_rooms_;  ///< by block and state, where those are offloaded
};

}  // namespace weft
