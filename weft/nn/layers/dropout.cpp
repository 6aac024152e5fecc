#include "weft/nn/layers/dropout.h"

#include <vector>

#include "weft/nn/random.h"
#include "weft/nn/sequence/token_ranges.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

at::Tensor dropout(const at::Tensor& x, double p, const Context& context, std::string_view name) {
  const bool shares_sequences = context.cp.size() > 1 || context.layout.sequence_parallel;
  TensorChecks("dropout").floats("x", x, shares_sequences ? 2 : 1);
  if (p == 0.0 || !context.training || x.numel() == 0) return x;
  const RandomKey key = random_key(context.seed, name, context.step);
  const int64_t of_sample = x.numel() / x.size(0);
  if (!shares_sequences) return dropout(x, p, key, context.first_sample * of_sample);
  const int64_t width = of_sample / x.size(1),
                ranks = int64_t{context.cp.size()} * (context.layout.sequence_parallel ? context.tp.size() : 1);
  const std::vector<ShardRange> tokens = own_ranges(context, x.size(1));
  std::vector<ElementRun> runs;
  for (int64_t sample = 0; sample < x.size(0); ++sample) {
    const int64_t first_token = (context.first_sample + sample) * x.size(1) * ranks;
    for (const ShardRange& range : tokens)
      runs.push_back({(first_token + range.begin) * width, (range.end - range.begin) * width});
  }
  return dropout(x, p, key, runs);
}

}  // namespace weft
