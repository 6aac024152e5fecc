#include "weft/data/loader.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "weft/base/error.h"

namespace weft {
namespace {

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

Batch join(const Batch& a, const Batch& b) {
  Batch out;
  for (size_t i = 0; i < a.inputs.size(); ++i) out.inputs.push_back(join_rows(a.inputs[i], b.inputs[i]));
  out.target = join_rows(a.target, b.target);
  return out;
}

void require(bool good, const std::string& message) {
  if (!good) throw InputError(message);
}

Batch get(const Dataset& dataset, const std::vector<int64_t>& indices, int64_t epoch) {
  Batch batch = dataset.get(indices, epoch);
  const std::string misfit = samples_misfit(batch, static_cast<int64_t>(indices.size()));
  require(misfit.empty(), fmt::format("dataset: {} where {} were asked for", misfit, indices.size()));
  return batch;
}

}  // namespace

void check_batches(const LoaderOptions& o) {
  require(o.num_shards >= 1, fmt::format("loader: {} data-parallel ranks; there must be at least 1", o.num_shards));
  require(o.shard >= 0 && o.shard < o.num_shards,
          fmt::format("loader: shard {} is not one of the {} data-parallel ranks", o.shard, o.num_shards));
  require(o.global_batch >= 1, fmt::format("batch.global = {}: must be at least 1", o.global_batch));
  require(o.micro_batch >= 1, fmt::format("batch.micro = {}: must be at least 1", o.micro_batch));
  require(o.first_step >= 0, fmt::format("loader: first step {} is negative", o.first_step));
  require(o.ahead >= 1, fmt::format("loader: ahead = {}; at least 1 micro-batch must be prepared ahead", o.ahead));
  require(o.timeout_s > 0, fmt::format("loader: timeout_s = {}; must be positive", o.timeout_s));
  const int64_t unit = o.micro_batch * o.num_shards;
  if (o.global_batch % unit == 0) return;
  const int64_t below = o.global_batch / unit * unit;
  const std::string nearest = below > 0 ? fmt::format("{} or {}", below, below + unit) : fmt::format("{}", unit);
  throw InputError(
      fmt::format("batch.global = {} is not a multiple of batch.micro * data-parallel ranks = {} * {} = {}; the "
                  "nearest that is: {}",
                  o.global_batch, o.micro_batch, o.num_shards, unit, nearest));
}

struct Loader::State {
  State(std::shared_ptr<const Dataset> data, Sampler s, const LoaderOptions& o)
      : dataset(std::move(data)), sampler(s), options(o) {}

  int64_t micro_batches() const { return options.global_batch / options.micro_batch / options.num_shards; }
  Batch make(int64_t count) const;
  void produce();

  const std::shared_ptr<const Dataset> dataset;
  const Sampler sampler;
  const LoaderOptions options;

  std::mutex mutex;
  std::condition_variable taken, made;
  std::deque<Batch> ready;
  std::exception_ptr error;
  bool stopping = false;
  int64_t given = 0;  ///< micro-batches that next() has handed out
  std::thread thread;
};

/// Micro-batch number `count` of this rank, counted from options.first_step.
Batch Loader::State::make(int64_t count) const {
  const int64_t step = options.first_step + count / micro_batches();
  const int64_t micro = options.shard * micro_batches() + count % micro_batches();
  const int64_t begin = step * options.global_batch + micro * options.micro_batch;
  const int64_t end = begin + options.micro_batch;
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
  return batch;
}

void Loader::State::produce() {
  try {
    for (int64_t count = 0;; ++count) {
      {
        std::unique_lock lock(mutex);
        // No deadline: the consumer may take as long as it likes over a step, and the destructor wakes this up.
        taken.wait(lock, [&] { return stopping || static_cast<int>(ready.size()) < options.ahead; });
        if (stopping) return;
      }
      Batch batch = make(count);
      std::lock_guard lock(mutex);
      ready.push_back(std::move(batch));
      made.notify_one();
    }
  } catch (...) {
    std::lock_guard lock(mutex);
    error = std::current_exception();
    made.notify_all();
  }
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
  state_ = std::make_unique<State>(std::move(dataset), sampler, options);
}

Loader::~Loader() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    state_->taken.notify_all();
  }
  if (state_->thread.joinable()) state_->thread.join();
}

Batch Loader::next() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  // Not before: a rank in the middle of a pipeline asks for none.
  if (!s.thread.joinable()) s.thread = std::thread([&s] { s.produce(); });
  const auto limit = std::chrono::duration<double>(s.options.timeout_s);
  if (!s.made.wait_for(lock, limit, [&] { return !s.ready.empty() || s.error; })) {
    throw Error(fmt::format("loader: the dataset took longer than {} s for a micro-batch; check the disk it reads from",
                            s.options.timeout_s));
  }
  if (s.ready.empty()) std::rethrow_exception(s.error);
  Batch batch = std::move(s.ready.front());
  s.ready.pop_front();
  ++s.given;
  s.taken.notify_one();
  return batch;
}

int64_t Loader::next_step() const {
  std::lock_guard lock(state_->mutex);
  return state_->options.first_step + state_->given / state_->micro_batches();
}

int Loader::micro_batches_per_step() const { return static_cast<int>(state_->micro_batches()); }

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
  return true;
}

void EvaluationLoader::rewind() { next_ = share_.first; }

}  // namespace weft
