#include "weft/nn/repeat_heads.h"

namespace weft {

at::Tensor repeat_heads(const at::Tensor& x, int64_t times) {
  return times == 1 ? x : x.unsqueeze(2).expand({-1, -1, times, -1, -1}).flatten(1, 2);
}

at::Tensor sum_repeats(const at::Tensor& gradient, int64_t times) {
  return times == 1 ? gradient : gradient.unflatten(1, {gradient.size(1) / times, times}).sum(2);
}

}  // namespace weft
