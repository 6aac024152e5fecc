#include "weft/engine/rank_tokens.h"

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/nn/sequence/zigzag.h"

namespace weft {

MicroBatch own_tokens(MicroBatch batch, const Group& cp) {
  if (cp.size() == 1) return batch;
  const auto cut = [&cp](at::Tensor& x, const char* what) {
    if (x.dim() < 2) {
      throw InputError(fmt::format("layout.cp = {}: the {} of a micro-batch have no tokens; must be [samples, tokens, ...]",
                                   cp.size(), what));
    }
    x = take_shards(x, 1, zigzag(x.size(1), cp.size(), cp.rank()));
  };
  for (at::Tensor& input : batch.inputs) cut(input, "inputs");
  if (batch.target.defined()) cut(batch.target, "targets");
  return batch;
}

}  // namespace weft
