// TorchLayer: a torch::nn layer that can be split over tp: Linear, Conv2d, Embedding.
//
// Unlike the module's own forward, it runs with a Context and reads weft's Parameters. Classes derived from these three do not
// qualify: their forward may differ.
#pragma once

#include <memory>
#include <string>

#include "weft/nn/activation_form.h"
#include "weft/nn/block.h"

namespace torch::nn {
class Module;
}

namespace weft {

/// Forward of such a layer with a split weight.
class TorchLayer {
 public:
  virtual ~TorchLayer() = default;
  /// Computes as linear() (nn/layers/linear.h), split_convolution() or embedding() do.
  virtual at::Tensor forward(const at::Tensor& x, Parameter& weight, Parameter* bias, const Context& context) const = 0;
  /// Reason why the weight cannot be split this way; empty: it can.
  virtual std::string split_refusal(const Split& split) const = 0;
  /// Form of the parts that the layer takes and returns; whole: it takes and returns no parts.
  virtual ActivationForm::Kind parts() const = 0;
};

/// The module as a TorchLayer; null if it does not qualify.
std::unique_ptr<TorchLayer> torch_layer(const std::shared_ptr<torch::nn::Module>& module);

}  // namespace weft
