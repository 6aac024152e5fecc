#include "weft/nn/attention_heads.h"

#include <fmt/core.h>

#include "weft/base/error.h"

namespace weft {

at::Tensor split_heads(const at::Tensor& qkv, int64_t third, int64_t heads) {
  const int64_t width = qkv.size(2) / 3;
  return qkv.narrow(2, third * width, width).view({qkv.size(0), qkv.size(1), heads, width / heads}).transpose(1, 2);
}

at::Tensor merge_heads(const at::Tensor& x) { return x.transpose(1, 2).flatten(2); }

at::Tensor as_heads(const at::Tensor& x, int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

void check_heads(const at::Tensor& qkv, int64_t heads) {
  if (heads >= 1 && qkv.size(2) % (3 * heads) == 0) return;
  throw InputError(
      fmt::format("attention: rows of {} are no queries, keys and values of {} heads; split the projection by whole heads",
                  qkv.size(2), heads));
}

void check_grouped(const at::Tensor& q, const at::Tensor& k) {
  if (k.size(1) > 0 && q.size(1) % k.size(1) == 0) return;
  throw InputError(fmt::format("attention: {} query heads do not share {} key-value heads evenly; make them a multiple",
                               q.size(1), k.size(1)));
}

}  // namespace weft
