#include "weft/train/compare/joined_batches.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace weft {

namespace {

int size_of(const std::vector<AxisSize>& axes, const std::string& name) {
  const auto found = std::find_if(axes.begin(), axes.end(), [&](const AxisSize& axis) { return axis.name == name; });
  return found == axes.end() ? 1 : found->size;
}

/// Ranks of the whole layout that one rank of the reduced layout replaces, in sets that are normalised together. Ranks are
/// indices among those that read different samples.
std::vector<std::vector<int>> joined_ranks(const LayoutSettings& settings, int place) {
  const AxisSet together = axes_of(settings.options.layout.sync_batch_norm);
  const int shards = size_of(settings.whole, "shard"), own_shards = size_of(settings.axes, "shard");
  const bool dp_off = size_of(settings.axes, "dp") < size_of(settings.whole, "dp"), shard_off = own_shards < shards;
  std::map<std::pair<int, int>, std::vector<int>> sets;
  for (int rank = 0; rank < size_of(settings.whole, "dp") * shards; ++rank) {
    const int dp = rank / shards, shard = rank % shards;
    if ((!dp_off && dp != place / own_shards) || (!shard_off && shard != place % own_shards)) continue;
    sets[{dp_off && together.has(kReplicaAxis) ? 0 : dp, shard_off && together.has(kShardAxis) ? 0 : shard}].push_back(rank);
  }
  std::vector<std::vector<int>> result;
  result.reserve(sets.size());
  for (auto& [at, ranks] : sets) result.push_back(std::move(ranks));
  return result;
}

/// Joins the micro-batches of a set along the batch.
class Joined {
 public:
  Joined(const BatchSource& batches, const LoaderOptions& options, const LayoutSettings& settings) {
    const std::vector<std::vector<int>> sets = joined_ranks(settings, options.shard);
    LoaderOptions own = options;
    own.num_shards = size_of(settings.whole, "dp") * size_of(settings.whole, "shard");
    own.micro_batch = options.micro_batch / static_cast<int64_t>(sets.front().size());
    micro_batches_ = options.global_batch / own.num_shards / own.micro_batch;
    for (const std::vector<int>& ranks : sets) {
      sources_.emplace_back();
      for (const int rank : ranks) {
        own.shard = rank;
        sources_.back().push_back(batches(own));
      }
    }
  }

  Batch next() {
    const auto set = static_cast<size_t>(taken_++ / micro_batches_) % sources_.size();
    std::vector<Batch> parts;
    for (const Trainer::Next& source : sources_[set]) parts.push_back(source());
    if (parts.size() == 1) return std::move(parts.front());
    const auto join = [&](const auto& tensor_of) {
      std::vector<at::Tensor> tensors;
      tensors.reserve(parts.size());
      for (const Batch& part : parts) tensors.push_back(tensor_of(part));
      return at::cat(tensors);
    };
    Batch whole{.inputs = {},
                .target = join([](const Batch& part) { return part.target; }),
                .first_sample = parts.front().first_sample};
    for (size_t i = 0; i < parts.front().inputs.size(); ++i) {
      whole.inputs.push_back(join([i](const Batch& part) { return part.inputs[i]; }));
    }
    return whole;
  }

 private:
  std::vector<std::vector<Trainer::Next>> sources_;  ///< by set
  int64_t micro_batches_ = 1;                        ///< per step and set
  int64_t taken_ = 0;
};

}  // namespace

Trainer::Next joined_batches(const BatchSource& batches, const LoaderOptions& options, const LayoutSettings& settings) {
  if (settings.whole.empty()) return batches(options);
  return [joined = std::make_shared<Joined>(batches, options, settings)] { return joined->next(); };
}

}  // namespace weft
