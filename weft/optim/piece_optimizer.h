// What optimizers have in common, and how each is made.
#pragma once

#include <memory>
#include <vector>

#include "weft/optim/optimizer.h"
#include "weft/optim/update_pieces.h"

namespace weft {

/// An optimizer whose options are `Options` and whose state is UpdatePieces'.
template <class Options>
class PieceOptimizer : public Optimizer {
 public:
  /// Of `model`, which must outlive it; `pieces` is how an update goes through it.
  PieceOptimizer(FlatModel& model, const Options& options, const ParameterRules& rules,
                 const PieceOptions& pieces = {.most = kPieceElements})
      : options_(options), pieces_(model, num_states(options), rules, pieces) {}

  std::vector<at::Tensor>& state(int block) override { return pieces_.state(block); }

 protected:
  /// The weight decay of its parameters.
  double decay_of(const UpdatePiece& piece) const {
    return piece.weight_decay.value_or(piece.decay ? options_.weight_decay : 0.0);
  }
  /// The learning rate of its parameters.
  static double rate_of(const UpdatePiece& piece, const UpdateStep& step) { return step.lr * piece.lr_factor; }

  const Options options_;  ///< as they were checked
  UpdatePieces pieces_;    ///< what updates go through
};

/// make_optimizer() of each kind.
std::unique_ptr<Optimizer> make_of(FlatModel& model, const AdamW& options, const ParameterRules& rules);
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Sgd& options, const ParameterRules& rules);      ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Lars& options, const ParameterRules& rules);     ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Lamb& options, const ParameterRules& rules);     ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Lion& options, const ParameterRules& rules);     ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const RmsProp& options, const ParameterRules& rules);  ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Adagrad& options, const ParameterRules& rules);  ///< the same

}  // namespace weft
