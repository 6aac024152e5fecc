// The micro-batches of one rank: which samples each holds, and how they are made, whole or in shares. Loader's rules
// (loader.h) for the positions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/batch_sizes.h"
#include "weft/data/dataset.h"
#include "weft/data/loader_options.h"
#include "weft/data/sampler.h"

namespace weft {

/// A micro-batch that several threads make together, each some of its shares.
struct SharedBatch {
  Batch batch = {};
  std::vector<std::vector<std::string>> skipped = {};  ///< by share
};

/// Those of a run, from LoaderOptions::first_step on. Thread-safe.
class MicroBatches {
 public:
  /// The options have been checked.
  MicroBatches(std::shared_ptr<const Dataset> dataset, Sampler sampler, const LoaderOptions& options);

  /// The step of micro-batch number `count`.
  int64_t step(int64_t count) const { return place(count).step; }
  /// A step has, from that of micro-batch number `count` on.
  int64_t per_step(int64_t count) const;
  /// Micro-batch number `count`, by this thread alone.
  Batch make(int64_t count) const { return finish(count, {.batch = whole(count)}); }

  /// How many shares a micro-batch has; more than one of a dataset that FillsRows.
  int64_t shares() const { return shares_; }
  /// Room for the shares of a micro-batch, nothing in it; none where one share makes it whole.
  SharedBatch begin() const;
  /// Fills share number `share` of it. From several threads, each with another share.
  void fill(int64_t count, int64_t share, SharedBatch& shared) const;
  /// The micro-batch, once all shares are filled.
  Batch finish(int64_t count, SharedBatch shared) const;

 private:
  /// Where a micro-batch of this rank lies.
  struct Place {
    int64_t step = 0;   ///< of the run
    int64_t begin = 0;  ///< its first sample, a position in the run
  };

  Place place(int64_t count) const;
  /// The samples of micro-batch number `count`.
  Batch whole(int64_t count) const;
  /// This rank's, a step of a phase.
  int64_t micro_batches(int phase) const { return sizes_.of_phase(phase) / options_.micro_batch / options_.num_shards; }

  const std::shared_ptr<const Dataset> dataset_;
  const FillsRows* const rows_;  ///< the dataset, where it is one
  const Sampler sampler_;
  const LoaderOptions options_;
  const BatchSizes sizes_;
  const int64_t shift_;  ///< of positions, from where the batches before would have led
  int64_t share_ = 0;    ///< rows of a share
  int64_t shares_ = 1;
};

/// dataset.get(), checked: throws InputError when it hands out another number of samples than it was asked for.
Batch get_samples(const Dataset& dataset, const std::vector<int64_t>& indices, int64_t epoch);

}  // namespace weft
