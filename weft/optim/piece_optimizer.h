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
  PieceOptimizer(FlatModel& model, const Options& options, const PieceOptions& pieces = {.most = kPieceElements})
      : options_(options), pieces_(model, num_states(options), pieces) {}

  std::vector<at::Tensor>& state(int block) override { return pieces_.state(block); }

 protected:
  /// The weight decay of its parameters.
  double decay_of(const UpdatePiece& piece) const { return piece.decay ? options_.weight_decay : 0.0; }

  const Options options_;  ///< as they were checked
  UpdatePieces pieces_;    ///< what updates go through
};

/// make_optimizer() of each kind.
std::unique_ptr<Optimizer> make_of(FlatModel& model, const AdamW& options);
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Sgd& options);      ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Lars& options);     ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Lamb& options);     ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Lion& options);     ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const RmsProp& options);  ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Adagrad& options);  ///< the same

}  // namespace weft
