// Summed cross entropy of logits and classes, and the number of targets predicted correctly.
#pragma once

#include "weft/nn/model.h"

namespace weft {

inline constexpr int64_t kIgnoreIndex = -100;  ///< a target that does not count

/// Cross entropy of logits [..., classes] against target [...] of class ids, summed over the targets other than -100; or
/// against target [..., classes] of class probabilities, float32, all of which count.
LossValue cross_entropy(const Tensors& outputs, const at::Tensor& target);
/// The first output as logits [..., classes] that suit the target, of class ids [...] or of probabilities [..., classes].
/// Throws InputError for others.
at::Tensor checked_logits(const Tensors& outputs, const at::Tensor& target, bool of_ids);
/// The sum alone, against ids [...] that checked_ids() (nn/id_checks.h) has returned.
at::Tensor cross_entropy_of_ids(const at::Tensor& logits, const at::Tensor& ids);
/// Cross entropy with label smoothing (Szegedy et al. 2015, arXiv:1512.00567), as torch's label_smoothing: a share `smoothing`
/// of the target, in [0, 1), is spread evenly over all classes.
Loss smoothed_cross_entropy(double smoothing);
/// Sum of a bool or int64 tensor: a number of true elements, or of numbers; on a device the host does not wait for it.
LossCount number_of(const at::Tensor& counted);
/// Number of targets [...] of class ids other than `ignored`.
LossCount count_targets(const at::Tensor& target, int64_t ignored);
/// Number of targets counted by cross_entropy() whose class has the largest logit. A target of probabilities counts as its most
/// likely class.
LossCount count_hits(const Tensors& outputs, const at::Tensor& target);
/// Number of those targets whose class has one of the five largest logits; of equal logits, the lower class ranks first.
LossCount count_top5(const Tensors& outputs, const at::Tensor& target);
/// count_top5() for more than five classes; otherwise empty, as it would be meaningless.
Hits top5_of(int64_t classes);
/// count_hits() if the loss is cross_entropy() or was made by smoothed_cross_entropy(); empty for any other.
Hits hits_of(const Loss& loss);

}  // namespace weft
