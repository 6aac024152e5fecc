// CustomLion: weft's Lion as a user would write it, with identical bits.
#pragma once

#include <ATen/ops/mul.h>
#include <fmt/core.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/optim/element_wise_update.h"
#include "weft/optim/optimizer_options.h"

namespace weft::test {

class CustomLion : public ElementWiseUpdate {
 public:
  CustomLion(double beta1, double beta2, std::string state = "mean") : beta1_(beta1), beta2_(beta2), state_(std::move(state)) {}

  std::string name() const override { return "own lion"; }
  std::string numbers() const override { return fmt::format("betas {} and {}", beta1_, beta2_); }
  std::vector<std::string> state_names() const override { return {state_}; }

  void update(const ElementRange& range) const override {
    const at::Tensor& mean = range.state[0];
    if (range.weight_decay != 0.0) range.weights.mul_(1.0 - range.lr * range.weight_decay);
    at::Tensor towards = at::mul(mean, beta1_);
    towards.add_(range.gradients, 1.0 - beta1_).sign_();
    range.weights.sub_(towards, range.lr);
    mean.mul_(beta2_).add_(range.gradients, 1.0 - beta2_);
  }

 private:
  double beta1_, beta2_;
  std::string state_;
};

/// The same for a device that decides if updates are made; its rate is warmed up by 1 - 2^-n at update n.
class GatedLion : public CustomLion {
 public:
  using CustomLion::CustomLion;
  std::string name() const override { return "own gated lion"; }
  bool takes_gate() const override { return true; }

  void update(const ElementRange& range) const override {
    const at::Tensor& mean = range.state[0];
    const at::Tensor lr = range.number_there.neg().exp2_().neg_().add_(1.0).mul_(range.lr_there);
    range.weights.mul_(lr.mul(-range.weight_decay).add_(1.0));
    at::Tensor towards = at::mul(mean, 0.9);
    towards.add_(range.gradients, 1.0 - 0.9).sign_();
    range.weights.sub_(towards.mul_(lr));
    mean.mul_(0.99).add_(range.gradients, 1.0 - 0.99);
  }
};

/// Equivalent of Lion{.lr = lr, .weight_decay = weight_decay}.
inline CustomOptimizer custom_lion(double weight_decay = 0.0, double lr = 1e-4) {
  return {.lr = lr, .weight_decay = weight_decay, .update = std::make_shared<CustomLion>(0.9, 0.99)};
}

inline CustomOptimizer gated_lion() {
  return {.lr = 1e-4, .weight_decay = 0.1, .update = std::make_shared<GatedLion>(0.9, 0.99)};
}

}  // namespace weft::test
