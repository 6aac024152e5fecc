// Cross entropy of logits and classes, summed, and how many of the targets were predicted correctly.
#pragma once

#include "weft/nn/model.h"

namespace weft {

/// Cross entropy of logits [..., classes] against target [...] of class ids, summed over the targets that are not -100; or
/// against target [..., classes] of how likely each class is, float32, all of which count.
LossValue cross_entropy(const Tensors& outputs, const at::Tensor& target);
/// The same of a target that is mixed with an equal share of each class, `smoothing` in [0, 1) in all (Szegedy et al. 2015,
/// arXiv:1512.00567): torch's label_smoothing.
Loss smoothed_cross_entropy(double smoothing);
/// How many of the targets that cross_entropy() counts have the largest logit; of a target [..., classes] the likeliest class.
int64_t count_hits(const Tensors& outputs, const at::Tensor& target);
/// How many of them have one of the five largest; of equal ones those of the lower classes count as larger.
int64_t count_top5(const Tensors& outputs, const at::Tensor& target);
/// count_top5() where there are more than five classes; otherwise none, as it would say nothing.
Hits top5_of(int64_t classes);
/// count_hits() of a loss of classes: cross_entropy(), or what smoothed_cross_entropy() made. None of any other.
Hits hits_of(const Loss& loss);

}  // namespace weft
