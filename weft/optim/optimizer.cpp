#include "weft/optim/optimizer.h"

#include "weft/optim/piece_optimizer.h"

namespace weft {

void divide_gradients(UpdatePiece& piece, double divisor) {
  if (divisor != 1.0) piece.gradients.div_(divisor);
}

std::unique_ptr<Optimizer> make_optimizer(FlatModel& model, const OptimizerOptions& options) {
  check_optimizer(options);
  return std::visit([&](const auto& o) { return make_of(model, o); }, options);
}

}  // namespace weft
