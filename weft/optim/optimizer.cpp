#include "weft/optim/optimizer.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <fmt/core.h>

#include <algorithm>

#include "weft/base/error.h"

namespace weft {

namespace {

constexpr int64_t kPiece = int64_t{1} << 18;  // elements; a multiple of kAlignElements, so that vectors fall as in the whole

/// What a kernel takes in one call: part of a group of a block.
struct Piece {
  at::Tensor weights, gradients;
  std::vector<at::Tensor> state;
  bool decay = true;
};

/// The optimizer's state, and its walk over the pieces of a block.
class States {
 public:
  States(FlatModel& model, int count)
      : model_(model), states_(model.num_blocks(), std::vector<at::Tensor>(static_cast<size_t>(count))) {}

  std::vector<at::Tensor>& of(int block) { return states_[block]; }

  template <class Update>
  void for_each_piece(int block, const Update& update) {
    const FlatBlock& flat = model_.flat(block);
    for (at::Tensor& state : states_[block]) {
      if (!state.defined()) state = at::zeros_like(flat.master);
    }
    const bool wide = flat.owned_gradients.scalar_type() == at::kFloat;
    for (const GroupRange& group : flat.groups) {
      if (group.group == ParamGroup::statistic) continue;
      const GroupRange own = flat.own(group);
      const int64_t step = wide ? std::max<int64_t>(own.end - own.begin, 1) : kPiece;
      for (int64_t begin = own.begin; begin < own.end; begin += step) {
        const auto part = [&](const at::Tensor& whole) { return whole.narrow(0, begin, std::min(step, own.end - begin)); };
        Piece piece{part(flat.master), part(flat.owned_gradients).to(at::kFloat), {}, group.group == ParamGroup::decay};
        for (const at::Tensor& state : states_[block]) piece.state.push_back(part(state));
        update(piece);
      }
    }
    model_.copy_master_to_shard(block);
  }

 private:
  FlatModel& model_;
  std::vector<std::vector<at::Tensor>> states_;
};

/// The kernels' grad_scale divides; left out when there is nothing to divide by, which saves them a write of the gradient.
std::optional<at::Tensor> scale(double divisor, const at::Tensor& like) {
  if (divisor == 1.0) return std::nullopt;
  return at::scalar_tensor(divisor, like.options());
}

class AdamWOptimizer : public Optimizer {
 public:
  AdamWOptimizer(FlatModel& model, const AdamW& options) : options_(options), states_(model, num_states(options)) {}

  void update(int block, const UpdateStep& step) override {
    c10::NoGradGuard no_grad;
    states_.for_each_piece(block, [&](Piece& p) {
      const at::Tensor steps =
          at::scalar_tensor(static_cast<double>(step.number), p.weights.options());  // as the fused kernels want it
      at::_fused_adamw_({p.weights}, {p.gradients}, {p.state[0]}, {p.state[1]}, {}, {steps}, step.lr, options_.beta1,
                        options_.beta2, p.decay ? options_.weight_decay : 0.0, options_.eps, /*amsgrad=*/false,
                        /*maximize=*/false, scale(step.divisor, p.weights));
    });
  }

  std::vector<at::Tensor>& state(int block) override { return states_.of(block); }

 private:
  AdamW options_;
  States states_;
};

class SgdOptimizer : public Optimizer {
 public:
  SgdOptimizer(FlatModel& model, const Sgd& options) : options_(options), states_(model, num_states(options)) {}

  void update(int block, const UpdateStep& step) override {
    c10::NoGradGuard no_grad;
    states_.for_each_piece(block, [&](Piece& p) {
      // A zero velocity makes the kernel's first-step case the ordinary one: v = momentum 0 + g.
      at::_fused_sgd_({p.weights}, {p.gradients}, p.state, p.decay ? options_.weight_decay : 0.0, options_.momentum, step.lr,
                      /*dampening=*/0.0, options_.nesterov, /*maximize=*/false, /*is_first_step=*/false,
                      scale(step.divisor, p.weights));
    });
  }

  std::vector<at::Tensor>& state(int block) override { return states_.of(block); }

 private:
  Sgd options_;
  States states_;
};

void require(bool good, const char* key, double value, const char* rule) {
  if (!good) throw InputError(fmt::format("optimizer.{} is {}; it must be {}", key, value, rule));
}

}  // namespace

std::vector<std::string> state_names(const OptimizerOptions& options) {
  if (std::holds_alternative<AdamW>(options)) return {"exp_avg", "exp_avg_sq"};
  if (std::get<Sgd>(options).momentum > 0.0) return {"momentum_buffer"};
  return {};
}

int num_states(const OptimizerOptions& options) { return static_cast<int>(state_names(options).size()); }

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
