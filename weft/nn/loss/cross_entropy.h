// Summed cross entropy of logits and classes, and the number of targets predicted correctly.
#pragma once

#include "weft/nn/model.h"

namespace weft {

/// Cross entropy of logits [..., classes] against target [...] of class ids, summed over the targets other than -100; or
/// against target [..., classes] of class probabilities, float32, all of which count.
LossValue cross_entropy(const Tensors& outputs, const at::Tensor& target);
/// Cross entropy with label smoothing (Szegedy et al. 2015, arXiv:1512.00567), as torch's label_smoothing: a share `smoothing`
/// of the target, in [0, 1), is spread evenly over all classes.
Loss smoothed_cross_entropy(double smoothing);
/// Number of targets counted by cross_entropy() whose class has the largest logit. A target of probabilities counts as its most
/// likely class.
int64_t count_hits(const Tensors& outputs, const at::Tensor& target);
/// Number of those targets whose class has one of the five largest logits; of equal logits, the lower class ranks first.
int64_t count_top5(const Tensors& outputs, const at::Tensor& target);
/// count_top5() for more than five classes; otherwise empty, as it would be meaningless.
Hits top5_of(int64_t classes);
/// count_hits() if the loss is cross_entropy() or was made by smoothed_cross_entropy(); empty for any other.
Hits hits_of(const Loss& loss);

}  // namespace weft
