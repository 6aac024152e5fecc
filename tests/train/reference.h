// The slow way: one device, plain LibTorch, one graph a micro-batch, optimizer written out. What every strategy is compared
// with.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weft/base/batch_sizes.h"
#include "weft/data/dataset.h"
#include "weft/nn/model.h"
#include "weft/optim/optimizer.h"
#include "weft/optim/weight_average.h"

namespace weft {

struct Trained {
  std::vector<double> losses;                                     ///< mean of each step's global batch
  std::vector<double> norms = {};                                 ///< of each step's gradients, where a Trainer takes them
  std::vector<double> small_squares = {};                         ///< StepResult's
  std::vector<std::pair<std::string, at::Tensor>> values;         ///< parameters and statistics, by full name
  std::vector<std::pair<std::string, at::Tensor>> averages = {};  ///< of those, where they are kept
};

struct ReferenceOptions {
  int64_t global_batch = 8;
  BatchRamp ramp = {};
  int64_t micro_batch = 8;
  int steps = 3;
  uint64_t seed = 1;
  double clip = 0.0;
  int64_t small_batch_every = 0;  ///< which micro-batches are small ones of the noise scale; 0: none
  Sgd sgd;
  WeightAverage average = {};
};

/// `batch_of(step)` is the global batch.
Trained train_reference(const std::function<Model()>& make_model, const std::function<Batch(int64_t)>& batch_of,
                        const ReferenceOptions& options);

/// Samples [begin, begin + count) of a batch.
Batch slice(const Batch& batch, int64_t begin, int64_t count);

}  // namespace weft
