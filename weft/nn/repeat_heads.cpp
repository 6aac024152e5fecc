#include "weft/nn/repeat_heads.h"

#include <fmt/core.h>

#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

void check_heads_of(const char* name, const at::Tensor& x, int64_t times, bool are_repeated) {
  const TensorChecks check("repeated heads");
  check.dense(name, x);
  check.that(x.dim() == 4 && times >= 1 && (!are_repeated || x.size(1) % times == 0), name, x,
             fmt::format("[batch, heads, tokens, head width], each head {} times", times));
}

}  // namespace

at::Tensor repeat_heads(const at::Tensor& x, int64_t times) {
  check_heads_of("x", x, times, false);
  return times == 1 ? x : x.unsqueeze(2).expand({-1, -1, times, -1, -1}).flatten(1, 2);
}

at::Tensor sum_repeats(const at::Tensor& gradient, int64_t times) {
  check_heads_of("gradient", gradient, times, true);
  return times == 1 ? gradient : gradient.unflatten(1, {gradient.size(1) / times, times}).sum(2);
}

}  // namespace weft
