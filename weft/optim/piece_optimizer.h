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
  PieceOptimizer(FlatModel& model, const Options& options, const PieceOptions& pieces = {.most = kPieceElements})
      : options_(options), pieces_(model, num_states(options), pieces) {}

  std::vector<at::Tensor>& state(int block) override { return pieces_.state(block); }

 protected:
  double decay_of(const UpdatePiece& piece) const { return piece.decay ? options_.weight_decay : 0.0; }

  const Options options_;
  UpdatePieces pieces_;
};

/// Divides the piece's gradients.
void divide_gradients(UpdatePiece& piece, double divisor);

std::unique_ptr<Optimizer> make_of(FlatModel& model, const AdamW& options);
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Sgd& options);
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Lars& options);
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Lamb& options);
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Lion& options);
std::unique_ptr<Optimizer> make_of(FlatModel& model, const RmsProp& options);
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Adagrad& options);

}  // namespace weft
