// Micro-batches of one rank: which samples each has, and how to make it, whole or in shares. Positions follow loader.h.
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

/// Micro-batch made by several threads, each filling some of its shares.
struct SharedBatch {
  Batch batch = {};
  std::vector<std::vector<std::string>> skipped = {};  ///< by share
};

/// Micro-batches of a run, from LoaderOptions::first_step on. Thread-safe.
class MicroBatches {
 public:
  /// Requires checked options.
  MicroBatches(std::shared_ptr<const Dataset> dataset, Sampler sampler, const LoaderOptions& options);

  /// Step of micro-batch number `count`.
  int64_t step(int64_t count) const { return place(count).step; }
  /// Micro-batches per step, from the step of micro-batch number `count` on.
  int64_t per_step(int64_t count) const;
  /// Makes micro-batch number `count` on this thread alone.
  Batch make(int64_t count) const { return finish(count, {.batch = whole(count)}); }

  /// Shares per micro-batch; more than one only for a dataset that FillsRows.
  int64_t shares() const { return shares_; }
  /// Allocates space for a micro-batch's shares; empty if one share is the whole micro-batch.
  SharedBatch begin() const;
  /// Fills share number `share`. Called from several threads, each with a different share.
  void fill(int64_t count, int64_t share, SharedBatch& shared) const;
  /// Returns the micro-batch once all shares are filled.
  Batch finish(int64_t count, SharedBatch shared) const;

 private:
  /// Place of a micro-batch of this rank.
  struct Place {
    int64_t step = 0;   ///< of the run
    int64_t begin = 0;  ///< its first sample, a position in the run
  };

  Place place(int64_t count) const;
  /// Returns the samples of micro-batch number `count`.
  Batch whole(int64_t count) const;
  /// This rank's micro-batches per step of a phase.
  int64_t micro_batches(int phase) const { return sizes_.of_phase(phase) / options_.micro_batch / options_.num_shards; }

  const std::shared_ptr<const Dataset> dataset_;
  const FillsRows* const rows_;  ///< the dataset, if it implements FillsRows
  const Sampler sampler_;
  const LoaderOptions options_;
  const BatchSizes sizes_;
  const int64_t shift_;  ///< LoaderOptions::first_sample minus samples_before(first_step)
  int64_t share_ = 0;    ///< rows per share
  int64_t shares_ = 1;
};

/// dataset.get(), checked: throws InputError if it returns a different number of samples than requested.
Batch get_samples(const Dataset& dataset, const std::vector<int64_t>& indices, int64_t epoch);

}  // namespace weft
