// HeldTensor: a tensor that an exported program holds: a parameter, a buffer or a constant.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "weft/nn/block.h"

namespace weft {

/// A tensor that the program holds, at its place in the model.
struct HeldTensor {
  enum class Kind {
    parameter,
    statistic,  ///< a running mean or variance
    count,      ///< BatchNorm's number of forwards
    buffer,     ///< never changes, saved with the weights
    constant,   ///< never changes, not saved
  };
  Kind kind = Kind::parameter;
  std::string name;                                ///< in the module; of tied parameters the first
  bool is_trained = true;                          ///< of parameters
  bool is_embedding = false;                       ///< of parameters: rows looked up by id
  std::shared_ptr<Parameter> parameter = nullptr;  ///< of parameters and statistics
  at::Tensor value = {};                           ///< of the others, on the CPU until bound
  int calls = 0;                                   ///< of counts: forwards of its module in one of the model
  int owner = -1;                                  ///< the block that describes it
};

}  // namespace weft
