#include "weft/data/evaluation_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "weft/base/error.h"
#include "weft/data/micro_batches.h"

namespace weft {

EvaluationLoader::EvaluationLoader(std::shared_ptr<const Dataset> dataset, int64_t micro_batch, int shard, int num_shards)
    : dataset_(std::move(dataset)), micro_batch_(micro_batch) {
  if (micro_batch < 1) throw InputError(fmt::format("evaluation: a micro-batch of {}; must be at least 1", micro_batch));
  if (shard < 0 || shard >= num_shards) {
    throw InputError(fmt::format("evaluation: shard {} is not one of the {} data-parallel ranks", shard, num_shards));
  }
  const int64_t size = dataset_->size();
  const int64_t all = size / micro_batch + (size % micro_batch == 0 ? 0 : 1);
  // floor(k M / n), without overflow of k M.
  const auto edge = [&](int64_t k) { return all / num_shards * k + all % num_shards * k / num_shards; };
  share_ = {shard, num_shards, edge(shard), edge(shard + 1) - edge(shard)};
  rewind();
}

bool EvaluationLoader::next(Batch& batch) {
  if (next_ >= share_.first + share_.count) return false;
  const int64_t begin = next_++ * micro_batch_;
  std::vector<int64_t> indices(static_cast<size_t>(std::min(micro_batch_, dataset_->size() - begin)));
  std::iota(indices.begin(), indices.end(), begin);
  batch = get_samples(*dataset_, indices, 0);
  batch.first_sample = begin;
  skipped_.insert(batch.skipped.begin(), batch.skipped.end());
  return true;
}

void EvaluationLoader::rewind() { next_ = share_.first; }

}  // namespace weft
