// Cross entropy whose targets count by weights of their classes.
#pragma once

#include <vector>

#include "weft/nn/model.h"

namespace weft {

/// Cross entropy of logits [..., classes], as torch.nn.CrossEntropyLoss(weight=..., label_smoothing=...): each target's loss
/// times the weight of its class, over the sum of those weights, LossValue::weight. Against class probabilities the count
/// divides it, as there. `weights` are at least 0, one per class. Throws InputError for others.
Loss weighted_cross_entropy(const std::vector<double>& weights, double smoothing = 0.0);

}  // namespace weft
