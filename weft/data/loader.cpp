#include "weft/data/loader.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/default_floats.h"
#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/base/openmp.h"
#include "weft/base/stopwatch.h"
#include "weft/base/time_limit.h"
#include "weft/data/micro_batches.h"

namespace weft {
namespace {

constexpr double kLongestEnd_s = 10.0;  // how long a loader waits for its threads; a stuck one is abandoned

void require(bool good, const std::string& message) {
  if (!good) throw InputError(message);
}

/// Returns the exception that work() throws, or nullptr.
std::exception_ptr error_of(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (...) {
    return std::current_exception();
  }
}

void check_divides(const LoaderOptions& o, int64_t global_batch, const std::string& which) {
  const int64_t unit = o.micro_batch * o.num_shards;
  if (global_batch % unit == 0) return;
  const int64_t below = global_batch / unit * unit;
  const std::string nearest = below > 0 ? fmt::format("{} or {}", below, below + unit) : fmt::format("{}", unit);
  throw InputError(
      fmt::format("{} = {} is not a multiple of batch.micro * data-parallel ranks = {} * {} = {}; the "
                  "nearest that is: {}",
                  which, global_batch, o.micro_batch, o.num_shards, unit, nearest));
}

}  // namespace

void check_batches(const LoaderOptions& o) {
  require(o.num_shards >= 1, fmt::format("loader: {} data-parallel ranks; there must be at least 1", o.num_shards));
  require(o.shard >= 0 && o.shard < o.num_shards,
          fmt::format("loader: shard {} is not one of the {} data-parallel ranks", o.shard, o.num_shards));
  require(o.global_batch >= 1, fmt::format("batch.global = {}: must be at least 1", o.global_batch));
  require(o.micro_batch >= 1, fmt::format("batch.micro = {}: must be at least 1", o.micro_batch));
  require(o.first_step >= 0, fmt::format("loader: first step {} is negative", o.first_step));
  constexpr int kMostWorkers = 1024;
  require(o.workers >= 0 && o.workers <= kMostWorkers,
          fmt::format("loader: workers = {}; must be in [0, {}]", o.workers, kMostWorkers));
  require(o.ahead >= 1, fmt::format("loader: ahead = {}; at least 1 micro-batch must be prepared ahead", o.ahead));
  require(o.timeout_s > 0, fmt::format("loader: timeout_s = {}; must be positive", o.timeout_s));
  require(!o.pinned || at::accelerator::deviceCount() > 0, "loader: pinned memory needs a GPU, which this build or host lacks");
  for (size_t i = 0; i < o.ramp.size(); ++i) {
    const BatchPhase& phase = o.ramp[i];
    const std::string which = fmt::format("batch.ramp, phase {}: global", i + 1);
    require(phase.global_batch >= 1 && phase.steps >= 1,
            fmt::format("{} = {} for {} steps: both must be at least 1", which, phase.global_batch, phase.steps));
    check_divides(o, phase.global_batch, which);
  }
  check_divides(o, o.global_batch, "batch.global");
}

Sampler sampler_of(const Dataset& dataset, uint64_t seed) {
  return {dataset.size(), {.seed = seed, .shuffle = !dataset.is_ordered()}};
}

/// State shared with the threads: a thread stuck in a read outlives the loader.
struct Loader::State : std::enable_shared_from_this<State> {
  State(std::shared_ptr<const Dataset> data, Sampler sampler, const LoaderOptions& o)
      : options(o),
        batches(std::move(data), sampler, o),
        ready(static_cast<size_t>(std::max<int64_t>(o.ahead, ceil_divide(o.workers, batches.shares())))) {}

  /// Micro-batch being prepared or ready, or why that failed.
  struct Slot {
    SharedBatch shared = {};  ///< while it is filled
    int64_t filled = 0;       ///< shares filled so far
    bool full = false;
    Batch batch = {};
    std::exception_ptr error = {};
    int64_t failed_share = 0;  ///< the share with that error
  };

  /// Share of a micro-batch, for one worker.
  struct Share {
    int64_t count = 0;  ///< number of the micro-batch
    int64_t share = 0;
  };

  /// Slot of micro-batch number `count`.
  Slot& slot(int64_t count) { return ready[static_cast<size_t>(count) % ready.size()]; }
  bool has_share() const { return next.share > 0 || next.count < given + static_cast<int64_t>(ready.size()); }
  Share take_share();
  void work();
  void fill(const Share& share);
  void start();
  Batch take();
  bool wait(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds limit);
  void hand_out(const Batch& batch);

  const LoaderOptions options;
  const MicroBatches batches;

  std::mutex mutex;
  std::condition_variable taken, made;
  std::vector<Slot> ready;
  Share next = {};    ///< next share for a worker
  int64_t given = 0;  ///< micro-batches returned by next()
  bool stopping = false;
  bool failed = false;  ///< a share failed; no later ones are started
  LoaderWaits waits;
  std::set<std::string> skipped;
  std::vector<std::thread> threads;
  size_t ended = 0;  ///< threads that have ended
};

/// Requires the lock.
Loader::State::Share Loader::State::take_share() {
  const Share share = next;
  next = share.share + 1 < batches.shares() ? Share{share.count, share.share + 1} : Share{share.count + 1, 0};
  return share;
}

/// Worker loop: takes the next share while there is room for its micro-batch.
void Loader::State::work() {
  while (true) {
    Share share;
    {
      std::unique_lock lock(mutex);
      // No deadline: the consumer may take any time for a step, and the destructor wakes this up.
      taken.wait(lock, [&] { return stopping || failed || has_share(); });
      if (stopping || failed) return;
      share = take_share();
    }
    fill(share);
  }
}

/// Makes a share; the last share of a micro-batch makes it ready.
void Loader::State::fill(const Share& share) {
  Slot& mine = slot(share.count);  // used only by its shares until it is full
  const std::exception_ptr error = error_of([&] { batches.fill(share.count, share.share, mine.shared); });
  {
    std::lock_guard lock(mutex);
    if (error && (!mine.error || share.share < mine.failed_share)) {
      mine.error = error;
      mine.failed_share = share.share;
      failed = true;
      taken.notify_all();
    }
    const int64_t begun = next.count > share.count ? batches.shares() : next.share;
    if (++mine.filled < (mine.error ? begun : batches.shares())) return;
  }
  if (!mine.error) {
    mine.error = error_of([&] { mine.batch = batches.finish(share.count, std::move(mine.shared)); });
  }
  std::lock_guard lock(mutex);
  mine.full = true;
  made.notify_all();
}

/// Counts a micro-batch that next() returns. Requires the lock.
void Loader::State::hand_out(const Batch& batch) {
  ++given;
  ++waits.batches;
  skipped.insert(batch.skipped.begin(), batch.skipped.end());
}

/// Requires the lock. The threads that call next() also allocate, so that memory freed with one micro-batch serves the next.
void Loader::State::start() {
  for (Slot& slot : ready) slot.shared = batches.begin();
  while (static_cast<int>(threads.size()) < options.workers) {
    threads.emplace_back([self = shared_from_this()] {
      const DefaultFloats floats;
      at::get_num_threads();  // LibTorch sets it on a thread's first call
      set_openmp_threads(1);  // workers are the parallelism: no pool per worker
      self->work();
      std::lock_guard lock(self->mutex);
      ++self->ended;
      self->made.notify_all();
    });
  }
}

/// Returns whether the next micro-batch is ready, or the loader has ended, within the limit.
bool Loader::State::wait(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds limit) {
  constexpr std::chrono::milliseconds kInterval{100};
  const auto end = std::chrono::steady_clock::now() + limit;
  const auto is_ready = [&] { return slot(given).full || stopping; };
  while (options.while_waiting) {
    if (made.wait_for(lock, kInterval, is_ready)) return true;
    if (std::chrono::steady_clock::now() >= end) return false;
    lock.unlock();
    options.while_waiting();
    lock.lock();
  }
  return made.wait_for(lock, limit, is_ready);
}

/// Returns the next micro-batch that workers prepare.
Batch Loader::State::take() {
  std::unique_lock lock(mutex);
  if (threads.empty() && !stopping) start();  // lazily: a rank in the middle of a pipeline needs no data
  const Stopwatch waiting;
  const std::chrono::milliseconds limit = time_limit(options.timeout_s);
  if (!wait(lock, limit)) {
    throw Error(fmt::format("loader: the dataset took longer than {} s for a micro-batch; check the disk it reads from",
                            options.timeout_s));
  }
  if (stopping) throw Error("loader: it has ended; its data set is no longer read");
  waits.waited_s += waiting.seconds();
  Slot& first = slot(given);
  if (first.error) std::rethrow_exception(first.error);  // also at the next call
  Slot empty{.shared = batches.begin()};                 // may throw; nothing has changed yet
  Batch batch = std::move(first.batch);
  first = std::move(empty);
  hand_out(batch);
  taken.notify_all();
  return batch;
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, Sampler sampler, const LoaderOptions& options) {
  check_batches(options);
  if (dataset->size() < options.num_shards) {
    throw InputError(
        fmt::format("the dataset has {} samples, fewer than the {} data-parallel ranks; use at most {} ranks or "
                    "more data",
                    dataset->size(), options.num_shards, dataset->size()));
  }
  if (sampler.size() != dataset->size()) {
    throw InputError(
        fmt::format("loader: the sampler was made for {} samples, the dataset has {}; make it with dataset->size()",
                    sampler.size(), dataset->size()));
  }
  require(!dataset->is_ordered() || !sampler.is_shuffled(),
          "loader: the dataset has its own order, which a shuffling sampler would break; make it with sampler_of()");
  state_ = std::make_shared<State>(std::move(dataset), sampler, options);
}

Loader::~Loader() { end(time_limit(std::min(state_->options.timeout_s, kLongestEnd_s))); }

void Loader::end(std::chrono::milliseconds limit) {
  State& s = *state_;
  if (s.options.workers == 0) return;  // next() holds the lock while it reads
  std::unique_lock lock(s.mutex);
  s.stopping = true;
  s.taken.notify_all();
  s.made.notify_all();
  std::vector<std::thread> threads = std::exchange(s.threads, {});  // of one of several calls
  const bool all_ended = s.made.wait_for(lock, limit, [&] { return threads.empty() || s.ended == threads.size(); });
  lock.unlock();
  for (std::thread& thread : threads) all_ended ? thread.join() : thread.detach();
}

Batch Loader::next() {
  State& s = *state_;
  if (s.options.workers > 0) return s.take();
  std::lock_guard lock(s.mutex);
  const DefaultFloats floats;
  const Stopwatch making;
  Batch batch = s.batches.make(s.given);
  s.hand_out(batch);
  s.waits.waited_s += making.seconds();
  return batch;
}

LoaderWaits Loader::waits() const {
  std::lock_guard lock(state_->mutex);
  return state_->waits;
}

std::vector<std::string> Loader::skipped() const {
  std::lock_guard lock(state_->mutex);
  return {state_->skipped.begin(), state_->skipped.end()};
}

int64_t Loader::next_step() const {
  std::lock_guard lock(state_->mutex);
  return state_->batches.step(state_->given);
}

int Loader::micro_batches_per_step() const {
  std::lock_guard lock(state_->mutex);
  return static_cast<int>(state_->batches.per_step(state_->given));
}

}  // namespace weft
