// TorchLayer: a torch::nn layer that can be split over tp: Linear, Conv2d, Embedding.
//
// Unlike the module's own forward it runs with a Context, and reads weft's Parameters. A class that derives from one of these
// is none: its forward may be another.
#pragma once

#include <memory>
#include <string>

#include "weft/nn/activation_form.h"
#include "weft/nn/block.h"

namespace torch::nn {
class Module;
}

namespace weft {

/// What such a layer does with a split weight.
class TorchLayer {
 public:
  virtual ~TorchLayer() = default;
  /// As linear() (nn/layers/linear.h), split_convolution() or embedding() do.
  virtual at::Tensor forward(const at::Tensor& x, Parameter& weight, Parameter* bias, const Context& context) const = 0;
  /// Why its weight cannot be split so; empty: it can.
  virtual std::string why_not(const Split& split) const = 0;
  /// Parts that it takes and puts out; whole: neither.
  virtual ActivationForm::Kind parts() const = 0;
};

/// The module as such a layer; null: it is none.
std::unique_ptr<TorchLayer> torch_layer(const std::shared_ptr<torch::nn::Module>& module);

}  // namespace weft
