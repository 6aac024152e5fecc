#include "weft/checked_device/nccl/communicator.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>

#include "weft/checked_device/checked_device.h"
#include "weft/checked_device/memory.h"
#include "weft/checked_device/movements.h"
#include "weft/checked_device/nccl/launch_counts.h"

namespace weft::checked_device {

namespace {

constexpr size_t kMostMessages = 8;  ///< of one launch with one peer, that are compared
constexpr size_t kMostCounts = 64;

/// What two ranks tell each other before they move the bytes of a launch.
struct Header {
  CallShape shape;
  struct Messages {
    int64_t count = 0;
    struct {
      int64_t numel, dtype;
    } first[kMostMessages] = {};
  } sends, receives;
  int64_t counts = 0;
  LaunchCount count[kMostCounts] = {};
};

at::Tensor empty_header() { return at::zeros({static_cast<int64_t>(sizeof(Header))}, at::kByte); }

Header read_header(const at::Tensor& bytes) {
  Header header;
  std::memcpy(&header, bytes.const_data_ptr(), sizeof header);
  return header;
}

bool is_collective(const Header& h) { return h.sends.count + h.receives.count == 0; }

std::string text(const Header& h) {
  if (is_collective(h)) {
    std::string all = fmt::format("{} of {} {}", c10d::opTypeToString(static_cast<c10d::OpType>(h.shape.operation)),
                                  h.shape.numel, c10::toString(static_cast<c10::ScalarType>(h.shape.dtype)));
    if (h.shape.root >= 0) all += fmt::format(" from rank {}", h.shape.root);
    if (h.shape.reduction > 0) all += fmt::format(" with reduction {}", h.shape.reduction);
    return all;
  }
  std::string all;
  for (const bool sends : {true, false}) {
    const Header::Messages& messages = sends ? h.sends : h.receives;
    for (size_t i = 0; i < std::min(static_cast<size_t>(messages.count), kMostMessages); ++i) {
      all += fmt::format("{}{} of {} {}", all.empty() ? "" : ", ", sends ? "send" : "receive", messages.first[i].numel,
                         c10::toString(static_cast<c10::ScalarType>(messages.first[i].dtype)));
    }
  }
  return all;
}

bool equal_bytes(const auto& a, const auto& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

/// Whether two headers are of one call: the same collective, or each message of one the other side of the other's.
bool match(const Header& a, const Header& b) {
  if (is_collective(a) != is_collective(b)) return false;
  if (is_collective(a)) return equal_bytes(a.shape, b.shape);
  return equal_bytes(a.sends, b.receives) && equal_bytes(a.receives, b.sends);
}

}  // namespace

Communicator::Communicator(std::string name, std::shared_ptr<Mover> mover, c10::intrusive_ptr<c10d::Store> store,
                           std::vector<int> ranks, int rank, std::vector<int> job_ranks, c10::Device device, uint32_t number,
                           std::chrono::milliseconds timeout)
    : name_(std::move(name)),
      mover_(std::move(mover)),
      store_(std::move(store)),
      ranks_(std::move(ranks)),
      rank_(rank),
      job_ranks_(std::move(job_ranks)),
      device_(device),
      number_(number),
      timeout_(timeout),
      stream_(new_stream(device.index())),
      actor_(actor_of(stream_)),
      thread_([this] { run_jobs(); }) {}

Communicator::~Communicator() {
  stop();
  forget_launches(device_.index(), name_);
}

void Communicator::connect() {
  const std::lock_guard launching(launching_);
  connect_once();
}

void Communicator::connect_once() {
  if (connected_) return;
  {
    const std::lock_guard lock(order_mutex());
    ++counts_here().communicators;
    if (number_ == 0) count_launches(device_.index(), name_, -1, 0);
    for (const int rank : ranks_) {
      if (rank != rank_) count_launches(device_.index(), name_, job_rank(rank), 0);
    }
  }
  std::vector<std::string> keys;
  for (const int rank : ranks_) keys.push_back(fmt::format("communicator {}/{}", name_, rank));
  store_->set(fmt::format("communicator {}/{}", name_, rank_), std::vector<uint8_t>{1});
  store_->wait(keys, timeout_);
  connected_ = true;
}

// One to each peer: what this launch is, and how many calls of other communicators came before it.
std::vector<std::pair<int, at::Tensor>> Communicator::headers(const Launch& launch) {
  const bool of_all = launch.sends.empty() && launch.receives.empty();
  std::vector<std::pair<int, at::Tensor>> all;
  for (const int peer : ranks_) {
    if (peer == rank_) continue;
    Header h;
    if (of_all) h.shape = launch.shape;
    for (const bool sends : {true, false}) {
      for (const Mover::Message& message : sends ? launch.sends : launch.receives) {
        if (message.peer != peer) continue;
        Header::Messages& messages = sends ? h.sends : h.receives;
        if (static_cast<size_t>(messages.count) < kMostMessages) {
          messages.first[messages.count] = {message.tensor.numel(), static_cast<int64_t>(message.tensor.scalar_type())};
        }
        ++messages.count;
      }
    }
    if (!of_all && is_collective(h)) continue;
    const std::vector<LaunchCount> counts = launch_counts(device_.index(), job_rank(peer), name_, kMostCounts);
    h.counts = static_cast<int64_t>(counts.size());
    std::copy(counts.begin(), counts.end(), h.count);
    if (!of_all) count_launches(device_.index(), name_, job_rank(peer), 1);
    at::Tensor bytes = empty_header();
    std::memcpy(bytes.mutable_data_ptr(), &h, sizeof h);
    all.emplace_back(peer, std::move(bytes));
  }
  if (of_all) count_launches(device_.index(), name_, -1, 1);
  return all;
}

Launched Communicator::launch(Launch launch) {
  const std::lock_guard launching(launching_);
  connect_once();
  const auto job = std::make_shared<Job>();
  Launched& launched = job->launched;
  launched.done = job->done.get_future().share();
  launched.error = std::make_shared<std::string>();
  launched.begin = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(order_mutex());
    join(actor_, clock_of(actor_of(current_stream(device_.index()))));
    launched.access = begin_launch(actor_, launch.what);
    for (const bool writes : {false, true}) {
      for (const at::Tensor& tensor : writes ? launch.writes : launch.reads) {
        Allocation& allocation = allocation_of(tensor);
        collect_movements(allocation, writes, job->before);
        check_access(allocation, ranges_of(tensor), writes, launched.access);
      }
    }
    for (const bool writes : {false, true}) {
      for (const at::Tensor& tensor : writes ? launch.writes : launch.reads) {
        add_movement(allocation_of(tensor), launched.done, writes);
      }
    }
    launched.end = clock_of(actor_);
    add_movement(actor_, launched.access.time, launched.done);
    job->headers = headers(launch);
    last_time_ = launched.access.time;
  }
  job->move = std::move(launch.move);
  const std::lock_guard lock(mutex_);
  jobs_.push_back(job);
  changed_.notify_all();
  return launched;
}

void Communicator::run_jobs() {
  Mover::block_sigpipe();
  for (;;) {
    std::shared_ptr<Job> job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopped_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = jobs_.front();
    }
    try {
      run(*job);
    } catch (const std::exception& error) {
      const char* what = error.what();
      *job->launched.error = std::string(what, std::strcspn(what, "\n"));
    }
    {
      const std::lock_guard lock(mutex_);
      jobs_.pop_front();
      if (error_.empty()) error_ = *job->launched.error;
    }
    job->done.set_value();
  }
}

void Communicator::run(Job& job) {
  for (const auto& done : job.before) done.wait();
  if (const std::string earlier = error(); !earlier.empty()) TORCH_CHECK(false, earlier);
  compare_headers(job);
  job.move(2 * number_ + 1);
}

void Communicator::compare_headers(const Job& job) {
  std::vector<Mover::Message> sends, receives;
  for (const auto& [peer, bytes] : job.headers) {
    sends.push_back({peer, bytes});
    receives.push_back({peer, empty_header()});
  }
  mover_->exchange(sends, receives, 2 * number_);
  for (size_t i = 0; i < sends.size(); ++i) {
    const Header mine = read_header(sends[i].tensor), theirs = read_header(receives[i].tensor);
    const int me = job_rank(rank_), peer = job_rank(sends[i].peer);
    if (!match(mine, theirs)) {
      violate(fmt::format("{}: rank {} calls {}, rank {} calls {}: NCCL would hang or mix up their bytes", name_, me,
                          text(mine), peer, text(theirs)),
              /*may_throw=*/false);
      TORCH_CHECK(false, "checked device: ", name_, ": rank ", me, " calls ", text(mine), ", rank ", peer, " calls ",
                  text(theirs));
    }
    for (int64_t a = 0; a < mine.counts; ++a) {
      for (int64_t b = 0; b < theirs.counts; ++b) {
        const LaunchCount &x = mine.count[a], &y = theirs.count[b];
        if (x.communicator != y.communicator || x.peer != y.peer || x.calls == y.calls) continue;
        violate(
            fmt::format(
                "rank {} gives {} {} calls before {} on {}, rank {} gives it {}: two communicators with these ranks in other "
                "orders may deadlock",
                me, communicator_name(x.communicator), x.calls, text(mine), name_, peer, y.calls),
            /*may_throw=*/false);
      }
    }
  }
}

std::optional<Launched> Communicator::oldest() {
  const std::lock_guard lock(mutex_);
  if (jobs_.empty()) return std::nullopt;
  return jobs_.front()->launched;
}

bool Communicator::host_has_waited() {
  const std::lock_guard lock(order_mutex());
  return last_time_ <= clock_of(kHost).of(static_cast<size_t>(actor_));
}

std::string Communicator::error() {
  const std::lock_guard lock(mutex_);
  return error_;
}

void Communicator::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace weft::checked_device
