#include "weft/optim/optimizer.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <fmt/core.h>

#include "weft/base/error.h"

namespace weft {

namespace {

/// One group of one block: views into the flat buffers, and the optimizer's state for it.
struct Piece {
  at::Tensor weights, gradients;
  bool decay = true;
  std::vector<at::Tensor> moments;
  at::Tensor steps;  ///< float scalar, as the fused kernels want it
};

std::vector<std::vector<Piece>> make_pieces(FlatModel& model, int num_moments) {
  std::vector<std::vector<Piece>> blocks(model.num_blocks());
  for (int b = 0; b < model.num_blocks(); ++b) {
    FlatBlock& flat = model.flat(b);
    for (const GroupRange& group : flat.groups) {
      if (group.group == ParamGroup::statistic) continue;
      Piece piece;
      piece.weights = flat.weights.narrow(0, group.begin, group.end - group.begin);
      piece.gradients = flat.gradients.narrow(0, group.begin, group.end - group.begin);
      piece.decay = group.group == ParamGroup::decay;
      for (int m = 0; m < num_moments; ++m) piece.moments.push_back(at::zeros_like(piece.weights));
      piece.steps = at::scalar_tensor(0.0, piece.weights.options());
      blocks[b].push_back(std::move(piece));
    }
  }
  return blocks;
}

/// The kernels' grad_scale divides; left out when there is nothing to divide by, which saves them a write of the gradient.
std::optional<at::Tensor> scale(double divisor, const at::Tensor& like) {
  if (divisor == 1.0) return std::nullopt;
  return at::scalar_tensor(divisor, like.options());
}

class AdamWOptimizer : public Optimizer {
 public:
  AdamWOptimizer(FlatModel& model, const AdamW& options) : options_(options), blocks_(make_pieces(model, 2)) {}

  void update(int block, double lr, double divisor) override {
    c10::NoGradGuard no_grad;
    for (Piece& p : blocks_[block]) {
      p.steps.add_(1.0);
      at::_fused_adamw_({p.weights}, {p.gradients}, {p.moments[0]}, {p.moments[1]}, {}, {p.steps}, lr, options_.beta1,
                        options_.beta2, p.decay ? options_.weight_decay : 0.0, options_.eps, /*amsgrad=*/false,
                        /*maximize=*/false, scale(divisor, p.weights));
    }
  }

 private:
  AdamW options_;
  std::vector<std::vector<Piece>> blocks_;
};

class SgdOptimizer : public Optimizer {
 public:
  SgdOptimizer(FlatModel& model, const Sgd& options)
      : options_(options), blocks_(make_pieces(model, options.momentum > 0.0 ? 1 : 0)) {}

  void update(int block, double lr, double divisor) override {
    c10::NoGradGuard no_grad;
    for (Piece& p : blocks_[block]) {
      // A zero velocity makes the kernel's first-step case the ordinary one: v = momentum 0 + g.
      at::_fused_sgd_({p.weights}, {p.gradients}, p.moments, p.decay ? options_.weight_decay : 0.0, options_.momentum, lr,
                      /*dampening=*/0.0, options_.nesterov, /*maximize=*/false, /*is_first_step=*/false,
                      scale(divisor, p.weights));
    }
  }

 private:
  Sgd options_;
  std::vector<std::vector<Piece>> blocks_;
};

void require(bool good, const char* key, double value, const char* rule) {
  if (!good) throw InputError(fmt::format("optimizer.{} is {}; it must be {}", key, value, rule));
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(FlatModel& model, const OptimizerOptions& options) {
  if (const auto* adamw = std::get_if<AdamW>(&options)) {
    require(adamw->lr >= 0, "lr", adamw->lr, "at least 0");
    require(adamw->beta1 >= 0 && adamw->beta1 < 1, "beta1", adamw->beta1, "in [0, 1)");
    require(adamw->beta2 >= 0 && adamw->beta2 < 1, "beta2", adamw->beta2, "in [0, 1)");
    require(adamw->eps > 0, "eps", adamw->eps, "above 0");
    require(adamw->weight_decay >= 0, "weight_decay", adamw->weight_decay, "at least 0");
    return std::make_unique<AdamWOptimizer>(model, *adamw);
  }
  const Sgd& sgd = std::get<Sgd>(options);
  require(sgd.lr >= 0, "lr", sgd.lr, "at least 0");
  require(sgd.momentum >= 0 && sgd.momentum < 1, "momentum", sgd.momentum, "in [0, 1)");
  require(sgd.weight_decay >= 0, "weight_decay", sgd.weight_decay, "at least 0");
  if (sgd.nesterov && sgd.momentum == 0) throw InputError("optimizer.nesterov needs a momentum above 0");
  return std::make_unique<SgdOptimizer>(model, sgd);
}

}  // namespace weft
