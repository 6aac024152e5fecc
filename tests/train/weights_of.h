// The weights of a trainer, to compare with others.
#pragma once

#include <map>
#include <string>

#include "weft/train/trainer/trainer.h"

namespace weft::test {

using Weights = std::map<std::string, at::Tensor>;

/// Copies of all weights and statistics, by full name. Collective over the trainer's ranks.
inline Weights weights_of(Trainer& trainer) {
  Weights weights;
  trainer.for_each_weight([&](const std::string& name, const at::Tensor& value) { weights[name] = value.clone(); });
  return weights;
}

}  // namespace weft::test
