// The kinds of torch/nn/modules/activation.h.
#include <torch/nn/modules/activation.h>

#include "tests/train/trainer/module_kinds/kinds.h"

namespace weft::module_kinds {

namespace nn = torch::nn;

std::vector<Kind> activation_kinds() {
  return {
      kind<nn::ELU>("ELU", {6}),
      kind<nn::SELU>("SELU", {6}),
      kind<nn::Hardshrink>("Hardshrink", {6}, nn::HardshrinkOptions(0.1)),
      kind<nn::Hardtanh>("Hardtanh", {6}),
      kind<nn::LeakyReLU>("LeakyReLU", {6}),
      kind<nn::LogSigmoid>("LogSigmoid", {6}),
      kind<nn::Softmax>("Softmax", {6}, 1),
      kind<nn::Softmin>("Softmin", {6}, 1),
      kind<nn::LogSoftmax>("LogSoftmax", {6}, 1),
      kind<nn::Softmax2d>("Softmax2d", {3, 2, 2}),
      kind<nn::PReLU>("PReLU", {6}),
      with("num_parameters", kind<nn::PReLU>("PReLU", {3, 4}, nn::PReLUOptions().num_parameters(3))),
      kind<nn::ReLU>("ReLU", {6}),
      with("inplace", refused("the forward of block 'kind': a leaf Variable that requires grad is being used in an in-place "
                              "operation",
                              kind<nn::ReLU>("ReLU", {6}, nn::ReLUOptions(true)))),
      kind<nn::ReLU6>("ReLU6", {6}),
      random(kind<nn::RReLU>("RReLU", {6})),
      kind<nn::CELU>("CELU", {6}),
      kind<nn::GLU>("GLU", {6}),
      kind<nn::GELU>("GELU", {6}),
      with("tanh", kind<nn::GELU>("GELU", {6}, nn::GELUOptions().approximate("tanh"))),
      kind<nn::SiLU>("SiLU", {6}),
      kind<nn::Mish>("Mish", {6}),
      kind<nn::Sigmoid>("Sigmoid", {6}),
      kind<nn::Softplus>("Softplus", {6}),
      kind<nn::Softshrink>("Softshrink", {6}, nn::SoftshrinkOptions(0.1)),
      kind<nn::Softsign>("Softsign", {6}),
      kind<nn::Tanh>("Tanh", {6}),
      kind<nn::Tanhshrink>("Tanhshrink", {6}),
      kind<nn::Threshold>("Threshold", {6}, 0.1, -0.5),
  };
}

}  // namespace weft::module_kinds
