// State of the engine during one step: activations, pending works, losses, partial sums of slots.
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

  /// Continues with another program, as Engine::change() says.
  void change(const Program& program);
  /// Begins a step. Before the first step of a run, ranks that compute losses agree on the loss scaling, which may call `next`.
  void begin(int64_t step, const InstructionList& list, const NextMicroBatch& next);
  void execute(const Instruction& instruction, int index, const NextMicroBatch& next);
  /// Waits for works that no instruction waited for (gathers of updated weights), and settles the loss if no update did.
  void finish();
  StepResult result() const { return result_; }

  /// The optimizer's tensors for a block.
  std::vector<at::Tensor>& optimizer_state(int block) { return updater_.state(block); }
  bool offloads_optimizer() const { return options_.offload.optimizer != nullptr; }
  /// Offloads a block's optimizer state; if unchanged, only frees it.
  void offload_optimizer(int block, bool changed);
  /// Reloads a block's optimizer state, or creates it.
  void reload_optimizer(int block);

  int64_t nominal_targets() const { return nominal_targets_; }  ///< 0: not known yet, or not on this rank
  void set_nominal_targets(int64_t targets) { nominal_targets_ = targets; }

  BlockCalls calls;
  WholeWeights weights;
  Transfers transfers;
  StepClock clock;

 private:
  class Calls;
  class Joining;
  class Rows;

  /// An offloaded tensor of a block's input.
  struct Offloaded {
    MemoryLayout layout;
    at::TensorOptions options;
    bool requires_grad = false;
    std::shared_ptr<OffloadBuffer> room = {};  ///< null: the tensor stayed, because something else holds its memory too
  };

  /// A micro-batch on its way through this rank's blocks.
  struct InFlight {
    MicroBatch batch;                                 ///< if this rank loads it
    std::vector<Tensors> inputs;                      ///< of each block, detached; gradients accumulate in them
    std::vector<Tensors> outputs;                     ///< of each block; empty after a drop, or once freed
    std::vector<GraphEnds> ends;                      ///< of each block's graph, at its outputs; empty after a drop
    std::vector<at::Tensor> statistics;               ///< of each block: the change made by its forward, until its backward
    std::map<int, std::vector<Offloaded>> offloaded;  ///< by block
    std::vector<Tensors> gradients;                   ///< of each block's output, once known
    std::map<int, DeferredGradients> deferred;        ///< by block: the deferred weight gradients of a split backward
    std::map<int, Work> sent;                         ///< by block: its output in flight, kept until it has arrived
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
  int64_t first_sample(int micro) const;  ///< position in the run of the micro-batch's first sample
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
  int loaded_ = 0;                         ///< number of micro-batches taken so far in the step
  std::optional<MicroBatch> first_batch_;  ///< first micro-batch of the run, until it is loaded
  std::vector<InFlight> in_flight_;
  std::vector<Work> works_;          ///< pending work of each instruction
  std::vector<at::Tensor> stashes_;  ///< partial sums of finished slots, by level: [all gradients]
  std::vector<bool> accumulated_;    ///< by block: the owned gradients hold a sum already
  std::vector<bool> uses_joined_;    ///< by block: the sums of its uses have been added up
  ExactSum squares_;                 ///< squares of the small batches' gradients: this rank's, then all ranks'
  at::Tensor losses_;                ///< [3, pieces of all micro-batches] float64 on the host: sums, counts, nominal targets
  int64_t nominal_targets_ = 0;      ///< targets of a nominal micro-batch, on ranks that compute losses; 0: not known yet
  bool loss_summed_ = false, loss_settled_ = false;
  StepResult result_;
  double divisor_ = 1.0;
  std::vector<std::vector<int>> optimizer_buffers_;  ///< by block and state; empty if not offloaded
};

}  // namespace weft
