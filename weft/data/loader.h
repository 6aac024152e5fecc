// Loader: this rank's micro-batches, prepared ahead by background threads from the first request on. The number of threads
// affects only speed: content and order of micro-batches depend on their place in the run alone.
//
// Step s covers G positions of the run, starting where the step before ended (s G if all steps have the global batch G; a ramp
// starts with smaller ones); its micro-batch j holds [j m, (j+1) m); rank d of D takes the micro-batches [d M/D, (d+1) M/D), M
// = G/m. next() throws background threads' errors in micro-batch order.
#pragma once

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "weft/data/dataset.h"
#include "weft/data/loader_options.h"
#include "weft/data/sampler.h"

namespace weft {

/// Makes the checks of Loader's constructor, for callers that need them before any data is opened: throws InputError unless
/// micro_batch * num_shards divides global_batch and the ramp's batches (naming the nearest global batches that it divides) and
/// the other options are in range.
void check_batches(const LoaderOptions& options);

/// Returns the training order of a dataset: shuffled by `seed`, or the dataset's own.
Sampler sampler_of(const Dataset& dataset, uint64_t seed);

/// Calls of next() and the time they waited.
struct LoaderWaits {
  int64_t batches = 0;  ///< micro-batches returned
  double waited_s = 0;  ///< time that callers of next() waited
};

/// Hands out a rank's micro-batches of a run.
class Loader {
 public:
  /// Throws InputError as check_batches() does, if the dataset has fewer than num_shards samples, and if the sampler was made
  /// for a different number of samples.
  Loader(std::shared_ptr<const Dataset> dataset, Sampler sampler, const LoaderOptions& options);
  ~Loader();  ///< end(), after at most min(10 s, timeout_s)
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Ends the threads: waits for work in progress (a micro-batch, or a share of one), at most `limit`. After that a thread
  /// stuck in the dataset is abandoned, along with the dataset. Thread-safe: with workers, next() throws from then on.
  void end(std::chrono::milliseconds limit);
  /// Returns the next micro-batch of this rank: first to last of a step, then the next step's. Thread-safe. Throws what the
  /// dataset threw (again at each further call), and Error if nothing arrived within timeout_s.
  Batch next();
  /// Step of the run, from 0, that the next micro-batch belongs to. Thread-safe.
  int64_t next_step() const;
  /// Totals so far. Thread-safe.
  LoaderWaits waits() const;
  /// Names of the bad samples in the micro-batches returned so far, each once, in order. Thread-safe.
  std::vector<std::string> skipped() const;
  /// Micro-batches of this rank, not of all ranks, in next_step().
  int micro_batches_per_step() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace weft
