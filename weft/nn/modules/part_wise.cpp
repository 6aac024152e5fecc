#include "weft/nn/modules/part_wise.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include <typeinfo>

namespace weft {

namespace {

/// Returns whether it is of exactly one of these classes, not a derived one.
template <class... Modules>
bool is_any(const torch::nn::Module& module) {
  return ((typeid(module) == typeid(Modules)) || ...);
}

bool works_by_element(const torch::nn::Module& module) {
  using namespace torch::nn;  // NOLINT: sixteen of its names
  return is_any<ReLUImpl, ReLU6Impl, LeakyReLUImpl, ELUImpl, SELUImpl, CELUImpl, GELUImpl, SiLUImpl, MishImpl, SigmoidImpl,
                LogSigmoidImpl, TanhImpl, SoftplusImpl, SoftsignImpl, HardtanhImpl, IdentityImpl>(module);
}

bool works_by_channel(const torch::nn::Module& module) {
  using namespace torch::nn;  // NOLINT
  return is_any<MaxPool2dImpl, AvgPool2dImpl, AdaptiveMaxPool2dImpl, AdaptiveAvgPool2dImpl>(module);
}

/// [n, channels, h, w] to [n, channels x h x w], where a part of the channels gives a contiguous part.
bool flattens_samples(const torch::nn::Module& module) {
  if (!is_any<torch::nn::FlattenImpl>(module)) return false;
  const torch::nn::FlattenOptions& options = dynamic_cast<const torch::nn::FlattenImpl&>(module).options;
  return options.start_dim() == 1 && options.end_dim() == -1;
}

}  // namespace

std::optional<ActivationForm> part_wise(const torch::nn::Module& module, const ActivationForm& parts) {
  if (works_by_element(module)) return parts;
  if (parts.kind != ActivationForm::Kind::channels) return std::nullopt;
  if (works_by_channel(module)) return parts;
  if (!flattens_samples(module)) return std::nullopt;
  return ActivationForm{.kind = ActivationForm::Kind::rows, .layer = parts.layer, .segments = parts.segments};
}

}  // namespace weft
