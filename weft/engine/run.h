// What one step of the engine holds while it runs: activations, works under way, losses, partial sums of slots.
#pragma once

#include <vector>

#include "weft/engine/engine.h"

namespace weft {

struct Engine::Run {
  Run(FlatModel& model, Updater& updater, const EngineOptions& options);

  void begin(int64_t step);
  void execute(const Instruction& instruction, int index, const Next& next);
  StepResult result() const;

 private:
  /// A micro-batch between its load and the backward of the first block.
  struct InFlight {
    MicroBatch batch;
    std::vector<Tensors> inputs;   ///< of each block, detached; gradients arrive in them
    std::vector<Tensors> outputs;  ///< of each block, with graph
    Tensors gradients;             ///< of the output of the block whose backward comes next
  };

  void load(int micro, const Next& next);
  void forward(int block, int micro);
  void loss(int micro);
  void backward(int block, int micro);
  void combine(const Instruction& instruction);
  Work reduce(const Instruction& instruction);
  Work reduce_loss();
  void settle_loss();
  void update(int block);
  Tensors run_block(int block, const Tensors& inputs, const Context& context);
  [[noreturn]] void report_not_finite(int micro, double loss) const;

  FlatModel& model_;
  Updater& updater_;
  const EngineOptions& options_;
  int64_t step_ = 0;
  std::vector<InFlight> in_flight_;
  std::vector<Work> works_;          ///< by instruction
  std::vector<at::Tensor> stashes_;  ///< partial sums of finished slots, by level: [all gradients]
  at::Tensor losses_;                ///< [2, all micro-batches] float64 on the host: sums and counts
  double nominal_count_ = 0.0;
  bool loss_settled_ = false;
  StepResult result_;
  double divisor_ = 1.0;
};

}  // namespace weft
