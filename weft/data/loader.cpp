#include "weft/data/loader.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/stopwatch.h"

namespace weft {
namespace {

void require(bool good, const std::string& message) {
  if (!good) throw InputError(message);
}

/// Rows of a, then rows of b. Not at::cat: that may start a second pool of OpenMP threads for this thread.
at::Tensor join_rows(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor first = a.contiguous(), second = b.contiguous();
  auto sizes = first.sizes().vec();
  sizes[0] += second.size(0);
  at::Tensor out = at::empty(sizes, first.options());
  auto* bytes = static_cast<char*>(out.mutable_data_ptr());
  std::memcpy(bytes, first.const_data_ptr(), first.nbytes());
  std::memcpy(bytes + first.nbytes(), second.const_data_ptr(), second.nbytes());
  return out;
}

/// Whether their rows may stand in one tensor.
bool are_alike(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.dim() == b.dim() && a.sizes().slice(1) == b.sizes().slice(1);
}

Batch join(const Batch& a, const Batch& b) {
  bool fits = a.inputs.size() == b.inputs.size() && are_alike(a.target, b.target);
  for (size_t i = 0; fits && i < a.inputs.size(); ++i) fits = are_alike(a.inputs[i], b.inputs[i]);
  require(fits, "dataset: its samples have other sizes or types in another epoch, and a micro-batch holds some of both");
  Batch out;
  for (size_t i = 0; i < a.inputs.size(); ++i) out.inputs.push_back(join_rows(a.inputs[i], b.inputs[i]));
  out.target = join_rows(a.target, b.target);
  out.skipped = a.skipped;
  out.skipped.insert(out.skipped.end(), b.skipped.begin(), b.skipped.end());
  return out;
}

/// In page-locked memory, but for what is there or on a device already.
Batch pin(Batch batch) {
  const auto pinned = [](const at::Tensor& x) { return x.is_cpu() && !x.is_pinned() ? x.pin_memory() : x; };
  for (at::Tensor& input : batch.inputs) input = pinned(input);
  batch.target = pinned(batch.target);
  return batch;
}

Batch get(const Dataset& dataset, const std::vector<int64_t>& indices, int64_t epoch) {
  Batch batch = dataset.get(indices, epoch);
  const std::string misfit = samples_misfit(batch, static_cast<int64_t>(indices.size()));
  require(misfit.empty(), fmt::format("dataset: {} where {} were asked for", misfit, indices.size()));
  return batch;
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
  require(!o.pinned || at::hasCUDA(), "loader: pinned memory is what GPUs copy from, and this build or host has none");
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

struct Loader::State {
  State(std::shared_ptr<const Dataset> data, Sampler s, const LoaderOptions& o)
      : dataset(std::move(data)),
        sampler(s),
        options(o),
        sizes(o.global_batch, o.ramp),
        shift(o.first_sample.value_or(sizes.samples_before(o.first_step)) - sizes.samples_before(o.first_step)),
        ready(static_cast<size_t>(std::max(o.ahead, o.workers))) {}

  /// A micro-batch that was prepared, or why it could not be.
  struct Slot {
    bool full = false;
    Batch batch = {};
    std::exception_ptr error = {};
  };

  /// Where a micro-batch of this rank lies.
  struct Place {
    int64_t step = 0;   ///< of the run
    int64_t begin = 0;  ///< its first sample, a position in the run
  };

  /// This rank's, a step of a phase.
  int64_t micro_batches(int phase) const { return sizes.of_phase(phase) / options.micro_batch / options.num_shards; }
  /// Of its micro-batch number `count`, counted from options.first_step.
  Place place(int64_t count) const;
  /// Of those that are prepared: micro-batch number `count` goes there.
  Slot& slot(int64_t count) { return ready[static_cast<size_t>(count) % ready.size()]; }
  Batch make(int64_t count) const;
  void work();
  Batch take();
  void hand_out(const Batch& batch);

  const std::shared_ptr<const Dataset> dataset;
  const Sampler sampler;
  const LoaderOptions options;
  const BatchSizes sizes;
  const int64_t shift;  ///< of positions, from where the batches before would have led

  std::mutex mutex;
  std::condition_variable taken, made;
  std::vector<Slot> ready;
  int64_t begun = 0;  ///< micro-batches that a worker has taken on
  int64_t given = 0;  ///< that next() has handed out
  bool stopping = false;
  LoaderWaits waits;
  std::set<std::string> skipped;
  std::vector<std::thread> threads;
};

Loader::State::Place Loader::State::place(int64_t count) const {
  int64_t step = options.first_step;
  int phase = sizes.phase_at(step);
  for (; phase + 1 < sizes.num_phases(); ++phase) {
    const int64_t left = (sizes.first_step(phase + 1) - step) * micro_batches(phase);
    if (count < left) break;
    count -= left;
    step = sizes.first_step(phase + 1);
  }
  step += count / micro_batches(phase);
  const int64_t micro = options.shard * micro_batches(phase) + count % micro_batches(phase);
  return {.step = step, .begin = sizes.samples_before(step) + shift + micro * options.micro_batch};
}

/// Micro-batch number `count` of this rank, counted from options.first_step.
Batch Loader::State::make(int64_t count) const {
  const int64_t begin = place(count).begin, end = begin + options.micro_batch;
  Batch batch;
  std::vector<int64_t> indices;
  for (int64_t position = begin; position < end;) {
    // One call an epoch: a micro-batch may straddle epochs, and a dataset may vary with them.
    const int64_t epoch = sampler.epoch(position);
    indices.clear();
    for (; position < end && sampler.epoch(position) == epoch; ++position) indices.push_back(sampler.sample(position));
    Batch part = get(*dataset, indices, epoch);
    batch = batch.target.defined() ? join(batch, part) : std::move(part);
  }
  batch.first_sample = begin;
  return options.pinned ? pin(std::move(batch)) : batch;
}

/// A worker: takes on the next micro-batch that nobody has, as long as there is room for it.
void Loader::State::work() {
  while (true) {
    int64_t count = 0;
    {
      std::unique_lock lock(mutex);
      // No deadline: the consumer may take as long as it likes over a step, and the destructor wakes this up.
      taken.wait(lock, [&] { return stopping || begun < given + static_cast<int64_t>(ready.size()); });
      if (stopping) return;
      count = begun++;
    }
    Slot done{.full = true};
    try {
      done.batch = make(count);
    } catch (...) {
      done.error = std::current_exception();
    }
    const bool failed = static_cast<bool>(done.error);
    std::lock_guard lock(mutex);
    slot(count) = std::move(done);
    made.notify_all();
    if (failed) return;  // nothing after it is asked for
  }
}

/// Counts a micro-batch that next() returns. With the lock held.
void Loader::State::hand_out(const Batch& batch) {
  ++given;
  ++waits.batches;
  skipped.insert(batch.skipped.begin(), batch.skipped.end());
}

/// The next micro-batch of those that workers prepare.
Batch Loader::State::take() {
  std::unique_lock lock(mutex);
  // Not before: a rank in the middle of a pipeline asks for none.
  while (static_cast<int>(threads.size()) < options.workers) threads.emplace_back([this] { work(); });
  const Stopwatch waiting;
  const auto limit = std::chrono::duration<double>(options.timeout_s);
  if (!made.wait_for(lock, limit, [&] { return slot(given).full; })) {
    throw Error(fmt::format("loader: the dataset took longer than {} s for a micro-batch; check the disk it reads from",
                            options.timeout_s));
  }
  waits.waited_s += waiting.seconds();
  Slot& next = slot(given);
  if (next.error) std::rethrow_exception(next.error);  // again at the next call
  Batch batch = std::move(next.batch);
  next = {};
  hand_out(batch);
  taken.notify_one();
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
          "loader: the dataset has an order of its own, which a sampler that shuffles would spoil; make it with sampler_of()");
  state_ = std::make_unique<State>(std::move(dataset), sampler, options);
}

Loader::~Loader() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    state_->taken.notify_all();
  }
  for (std::thread& thread : state_->threads) thread.join();
}

Batch Loader::next() {
  State& s = *state_;
  if (s.options.workers > 0) return s.take();
  std::lock_guard lock(s.mutex);
  const Stopwatch making;
  Batch batch = s.make(s.given);
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
  return state_->place(state_->given).step;
}

int Loader::micro_batches_per_step() const {
  return static_cast<int>(state_->micro_batches(state_->sizes.phase_at(next_step())));
}

EvaluationLoader::EvaluationLoader(std::shared_ptr<const Dataset> dataset, int64_t micro_batch, int shard, int num_shards)
    : dataset_(std::move(dataset)), micro_batch_(micro_batch) {
  require(micro_batch >= 1, fmt::format("evaluation: a micro-batch of {}; must be at least 1", micro_batch));
  require(shard >= 0 && shard < num_shards,
          fmt::format("evaluation: shard {} is not one of the {} data-parallel ranks", shard, num_shards));
  const int64_t size = dataset_->size();
  const int64_t all = size / micro_batch + (size % micro_batch == 0 ? 0 : 1);
  // floor(k M / n) without an overflow of k M.
  const auto edge = [&](int64_t k) { return all / num_shards * k + all % num_shards * k / num_shards; };
  share_ = {shard, num_shards, edge(shard), edge(shard + 1) - edge(shard)};
  rewind();
}

bool EvaluationLoader::next(Batch& batch) {
  if (next_ >= share_.first + share_.count) return false;
  const int64_t begin = next_++ * micro_batch_;
  std::vector<int64_t> indices(static_cast<size_t>(std::min(micro_batch_, dataset_->size() - begin)));
  std::iota(indices.begin(), indices.end(), begin);
  batch = get(*dataset_, indices, 0);
  batch.first_sample = begin;
  skipped_.insert(batch.skipped.begin(), batch.skipped.end());
  return true;
}

void EvaluationLoader::rewind() { next_ = share_.first; }

}  // namespace weft
