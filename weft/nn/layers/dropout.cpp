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
  const StepPlace& place = context.place;
  const bool is_placed = place.values.defined() && place.values.device() == x.device();
  const int64_t first_sample = context.first_sample - (is_placed ? place.first_sample : 0), of_part = x.numel() / x.size(0);
  int64_t of_sample = of_part;
  std::vector<ElementRun> runs;
  if (shares_sequences) {
    const int64_t width = of_part / x.size(1),
                  ranks = int64_t{context.cp.size()} * (context.layout.sequence_parallel ? context.tp.size() : 1);
    of_sample *= ranks;
    const std::vector<ShardRange> tokens = own_ranges(context, x.size(1));
    for (int64_t sample = first_sample; sample < first_sample + x.size(0); ++sample) {
      for (const ShardRange& range : tokens)
        runs.push_back({sample * of_sample + range.begin * width, (range.end - range.begin) * width});
    }
  } else {
    runs.push_back({first_sample * of_sample, x.numel()});
  }
  if (is_placed) return placed_dropout(x, p, placed_key(context.seed, name, place.values, of_sample), runs);
  return dropout(x, p, random_key(context.seed, name, context.step), runs);
}

}  // namespace weft
