// A model whose blocks round differently: measures the effect of rounding on a training.
//
// How far rounding separates two trainings depends on model and optimizer: AdamW makes full steps from the noise of a gradient
// whose true value is zero (that of the bias of attention keys). So the effect is measured: each element of each block's
// outputs is multiplied by 1 + 2 u e, with u uniform in [-1, 1) and e the spacing of the compute dtype; so is its gradient.
// Costs a pass over every activation.
//
// At a kink (a ReLU, the largest of a window) any rounding can change a gradient by a whole step, but few runs meet one. Wide
// noise, kWideNoise times as wide, meets more of them.
#pragma once

#include <cstdint>

#include "weft/nn/model.h"
#include "weft/recipe/precision.h"

namespace weft {

inline constexpr double kWideNoise = 64.0;

enum class NoiseWidth { spacing, wide };

/// Returns the model with that noise, keyed only by `number`, seed, block, step and sample.
Model with_rounding_noise(Model model, Precision precision, int number, NoiseWidth width = NoiseWidth::spacing);

}  // namespace weft
