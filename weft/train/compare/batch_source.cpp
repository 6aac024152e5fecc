#include "weft/train/compare/batch_source.h"

#include <memory>
#include <utility>

namespace weft {

namespace {

/// Cuts global batches into a rank's micro-batches.
class Cutter {
 public:
  Cutter(std::function<Batch(int64_t)> batch_of, const LoaderOptions& options)
      : batch_of_(std::move(batch_of)), options_(options), step_(options.first_step - 1) {}

  Batch next() {
    const int64_t share = options_.global_batch / options_.num_shards;
    if (left_ == 0) {
      batch_ = batch_of_(++step_);
      left_ = share;
    }
    const int64_t first = options_.shard * share + share - left_;
    left_ -= options_.micro_batch;
    Batch part{.inputs = {},
               .target = batch_.target.narrow(0, first, options_.micro_batch),
               .first_sample = step_ * options_.global_batch + first};
    for (const at::Tensor& input : batch_.inputs) part.inputs.push_back(input.narrow(0, first, options_.micro_batch));
    return part;
  }

 private:
  std::function<Batch(int64_t)> batch_of_;
  LoaderOptions options_;
  int64_t step_;
  int64_t left_ = 0;  ///< samples left of the rank's share
  Batch batch_;
};

}  // namespace

BatchSource whole_batches(std::function<Batch(int64_t step)> batch_of) {
  return [batch_of = std::move(batch_of)](const LoaderOptions& options) -> Trainer::Next {
    return [cutter = std::make_shared<Cutter>(batch_of, options)] { return cutter->next(); };
  };
}

BatchSource dataset_batches(std::shared_ptr<const Dataset> dataset, const Sampler& sampler) {
  return [dataset = std::move(dataset), sampler](const LoaderOptions& options) -> Trainer::Next {
    return [loader = std::make_shared<Loader>(dataset, sampler, options)] { return loader->next(); };
  };
}

}  // namespace weft
