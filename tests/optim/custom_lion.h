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

/// Equivalent of Lion{.lr = lr, .weight_decay = weight_decay}.
inline CustomOptimizer custom_lion(double weight_decay = 0.0, double lr = 1e-4) {
  return {.lr = lr, .weight_decay = weight_decay, .update = std::make_shared<CustomLion>(0.9, 0.99)};
}

}  // namespace weft::test
