// Two image classifiers: a small convolutional network and a multilayer perceptron. Both split over tp: convolutions by output
// channels, then gathered; linear layers alternately by columns and rows.
#pragma once

#include "weft/nn/model.h"

namespace weft {

/// The size of a convolutional network.
struct CnnOptions {
  int64_t channels = 1;  ///< channels of the images
  int64_t size = 28;     ///< height and width of the images
  int64_t width = 32;    ///< channels of the first stage; the second has twice as many
  int64_t classes = 10;  ///< logits per image
};

/// Two stages (convolution 3x3, batch norm, ReLU, 2x2 max pooling), then two linear layers, with cross_entropy() as the loss.
/// Input [batch, channels, size, size], output logits [batch, classes]. Initialised as in PyTorch. Throws InputError when a
/// size is below 1 (image size below 4).
Model cnn(const CnnOptions& options);

/// The size of a multilayer perceptron.
struct MlpOptions {
  int64_t inputs = 784;  ///< elements per sample
  int64_t width = 256;   ///< outputs of a hidden layer
  int64_t layers = 2;    ///< hidden layers, ReLU after each
  int64_t classes = 10;  ///< logits per sample
};

/// Linear layers, with cross_entropy() as the loss: input [batch, ...] of `inputs` elements per sample, output logits [batch,
/// classes]. Initialised as in PyTorch. Throws InputError when a size is below 1 (layers below 0).
Model mlp(const MlpOptions& options);

}  // namespace weft
