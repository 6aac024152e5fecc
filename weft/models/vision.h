// Two image classifiers: a small convolutional network and a multilayer perceptron.
#pragma once

#include "weft/nn/model.h"

namespace weft {

struct CnnOptions {
  int64_t channels = 1;  ///< of the images
  int64_t size = 28;     ///< height and width of the images
  int64_t width = 32;    ///< channels of the first stage; the second has twice as many
  int64_t classes = 10;
};

/// Two stages (convolution 3x3, batch norm, ReLU, 2x2 max pooling), then two linear layers. Input [batch, channels, size,
/// size], output logits [batch, classes]. Initialised as PyTorch does. Throws InputError when a size is below 1 (image size
/// below 4).
Model cnn(const CnnOptions& options);

struct MlpOptions {
  int64_t inputs = 784;
  int64_t width = 256;
  int64_t layers = 2;  ///< hidden layers, ReLU after each
  int64_t classes = 10;
};

/// Input [batch, ...] of `inputs` elements a sample, output logits [batch, classes].
Model mlp(const MlpOptions& options);

}  // namespace weft
