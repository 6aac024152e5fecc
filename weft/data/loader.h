// Loader: this rank's micro-batches, prepared ahead by background threads from the first one that is asked for on. How many
// threads changes nothing but the time: what is in a micro-batch, and their order, depends on its place in the run alone.
//
// Step s covers the G positions of the run from where the step before it ends (s G, where all have the global batch G; a ramp
// has smaller ones first); micro-batch j of it holds [j m, (j+1) m); rank d of D takes the micro-batches [d M/D, (d+1) M/D),
// M = G/m. Errors of background threads are thrown by next(), in that order.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "weft/data/dataset.h"
#include "weft/data/loader_options.h"
#include "weft/data/sampler.h"

namespace weft {

/// What Loader's constructor checks, for callers that want to know before any data is opened: throws InputError unless
/// micro_batch * num_shards divides global_batch, and those of the ramp (naming the nearest global batches that they divide)
/// and the rest is in range.
void check_batches(const LoaderOptions& options);

/// The order that a run trains on the dataset in: shuffled by `seed`, or the dataset's own.
Sampler sampler_of(const Dataset& dataset, uint64_t seed);

/// What next() cost.
struct LoaderWaits {
  int64_t batches = 0;  ///< that were handed out
  double waited_s = 0;  ///< for which the callers of next() stood still
};

/// Hands out a rank's micro-batches of a run.
class Loader {
 public:
  /// Throws InputError as check_batches() does, when the dataset holds fewer than num_shards samples, and when the sampler was
  /// made for another number of them.
  Loader(std::shared_ptr<const Dataset> dataset, Sampler sampler, const LoaderOptions& options);
  /// Waits for what is in the making, no more: a micro-batch, or a share of one; and for no longer than 10 s or timeout_s,
  /// after which a thread that is stuck in the dataset is left behind with it.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next micro-batch of this rank: in a step first to last, then the next step's. Thread-safe. Throws what the dataset
  /// threw (again at each further call), and Error when nothing came within timeout_s.
  Batch next();
  /// The step whose micro-batches come next, or are being handed out; of the run, counted from 0. Thread-safe.
  int64_t next_step() const;
  /// So far. Thread-safe.
  LoaderWaits waits() const;
  /// Names of the bad samples of the micro-batches that were handed out, each once, in order. Thread-safe.
  std::vector<std::string> skipped() const;
  /// This rank's, not all ranks', of next_step().
  int micro_batches_per_step() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace weft
