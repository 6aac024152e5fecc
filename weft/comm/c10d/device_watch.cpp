#include "weft/comm/c10d/device_watch.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <string_view>
#include <utility>

#include "weft/comm/c10d/gloo_engine.h"
#include "weft/comm/graph/device_graph.h"

namespace weft {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookAtCalls{200};
constexpr milliseconds kLookWhileWaiting{1};  ///< while finish() waits
/// The comparison of the call, which names the rank that is late, has its deadline first.
constexpr milliseconds kAfterComparison{1000};
constexpr milliseconds kProbeAfter{2000};  ///< age of a call before connections to other hosts are tried, and how often

std::vector<int> others_in(const Call& call, const Axis& axis) {
  if (call.operation == Operation::send || call.operation == Operation::receive) return {call.root};
  std::vector<int> positions;
  for (int position = 0; position < axis.size(); ++position) {
    if (position != axis.index) positions.push_back(position);
  }
  return positions;
}

// An engine's error may name none of the ranks that it is about, nor does the call unless it has a root.
std::string others_text(const Call& call, const std::vector<int>& ranks) {
  constexpr size_t kMost = 8;
  if (call.root >= 0) return "";
  const size_t shown = std::min(ranks.size(), kMost);
  const std::string more = ranks.size() > shown ? fmt::format(" and {} more", ranks.size() - shown) : "";
  return fmt::format(" with rank{} {}{}", ranks.size() == 1 ? "" : "s",
                     fmt::join(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shown), ", "), more);
}

}  // namespace

std::string device_error_text(const std::exception& error) {
  const auto* thrown = dynamic_cast<const c10::Error*>(&error);
  const std::string all = thrown ? thrown->what_without_backtrace() : error.what();
  const std::string first = first_line_of(all.c_str());
  constexpr std::string_view kLast = "Last error:";
  const size_t last = all.find(kLast);
  if (last == std::string::npos) return first;
  const size_t begin = all.find_first_not_of(" \n", last + kLast.size());
  return begin == std::string::npos ? first : fmt::format("{}; {}", first, first_line_of(all.c_str() + begin));
}

DeviceCall::DeviceCall(const Call& call, at::Device device, const c10::intrusive_ptr<c10d::Work>& work)
    : what_(call.what), call_(call), device_(device), work_(work), kept_(device.is_cpu() ? work : nullptr) {
  call_.what = what_;
}

void DeviceCall::mark_wait() {
  if (device_.is_cpu() || is_captured(device_)) return;
  const c10::impl::VirtualGuardImpl device(device_.type());
  auto event = std::make_shared<c10::Event>(device_.type());
  event->record(device.getStream(device_));
  const std::lock_guard lock(mutex_);
  if (!waited_) waited_ = std::move(event);
}

bool DeviceCall::has_ended() {
  std::shared_ptr<c10::Event> waited;
  {
    const std::lock_guard lock(mutex_);
    waited = waited_;
  }
  if (waited) return waited->query();
  const c10::intrusive_ptr<c10d::Work> work = work_.lock();
  if (!work) return true;  // dropped, and nothing waits for it
  if (!work->isCompleted()) return false;
  if (const std::exception_ptr error = work->exception()) std::rethrow_exception(error);
  return true;
}

DeviceWatch::DeviceWatch(Options options) : options_(std::move(options)), thread_([this] { run(); }) {
  pthread_setname_np(thread_.native_handle(), "weft-device");
}

DeviceWatch::~DeviceWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

// Does not notify: the thread wakes up on its own, so a call costs no switch to it.
void DeviceWatch::add(std::shared_ptr<DeviceCall> call) {
  const std::lock_guard lock(mutex_);
  if (failed_) return;
  calls_.push_back(std::move(call));
}

bool DeviceWatch::finish(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  while (!failed_ && !calls_.empty() && !deadline.passed()) {
    const std::shared_ptr<DeviceCall> oldest = calls_.front();
    lock.unlock();
    bool ended = false;
    try {
      ended = oldest->has_ended();
    } catch (const std::exception&) {  // the thread reports it
    }
    lock.lock();
    if (!ended) {
      changed_.wait_for(lock, kLookWhileWaiting);
    } else if (!calls_.empty() && calls_.front() == oldest) {
      calls_.pop_front();
    }
  }
  return calls_.empty() && !failed_;
}

void DeviceWatch::run() {
  c10::impl::VirtualGuardImpl(options_.device.type()).setDevice(options_.device);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLookAtCalls, [this] { return stopping_; })) {
    if (calls_.empty()) continue;
    lock.unlock();
    const std::optional<GroupFailure> failure = look();
    lock.lock();
    if (!failure) continue;
    failed_ = true;
    calls_.clear();
    changed_.notify_all();
    lock.unlock();
    return options_.on_failure(*failure);
  }
}

std::optional<GroupFailure> DeviceWatch::look() {
  std::shared_ptr<DeviceCall> before;
  while (true) {
    std::shared_ptr<DeviceCall> oldest;
    {
      const std::lock_guard lock(mutex_);
      if (before && !calls_.empty() && calls_.front() == before) calls_.pop_front();
      if (calls_.empty()) return std::nullopt;
      oldest = calls_.front();
    }
    if (oldest != watched_) {
      watched_ = oldest;
      since_ = Clock::now();
      gone_.reset();
    }
    if (const std::optional<GroupFailure> failure = look_at(*oldest)) return failure;
    if (!ended_) return std::nullopt;
    before = std::move(oldest);
  }
}

std::optional<GroupFailure> DeviceWatch::look_at(DeviceCall& call) {
  try {
    ended_ = call.has_ended();
  } catch (const std::exception& error) {
    return explain(call.call(), device_error_text(error));
  }
  if (ended_) return std::nullopt;
  if (const std::string error = engine_error(); !error.empty()) return explain(call.call(), error);
  if (const std::optional<GroupFailure> failure = look_for_gone(call.call())) return failure;
  if (Clock::now() - since_ < options_.timeout + kAfterComparison) return std::nullopt;
  return explain(call.call(), fmt::format("the ranks have made this call, but {} has not finished it after {:.1f} s",
                                          options_.device.str(), static_cast<double>(options_.timeout.count()) / 1e3));
}

std::optional<GroupFailure> DeviceWatch::look_for_gone(const Call& call) {
  const auto now = Clock::now();
  std::optional<int> closed;
  if (options_.probes && now - since_ >= kProbeAfter && now - probed_ >= kProbeAfter) {
    probed_ = now;
    closed = options_.closed_peer();
  }
  if (!closed && !options_.table->any_gone(options_.axis.ranks)) {
    gone_.reset();
    return std::nullopt;
  }
  if (!gone_) gone_ = now;
  if (!closed && now - *gone_ < kToFinishCall) return std::nullopt;
  const RankTable::Report report = options_.table->report(wait_in(call, options_.axis, others_in(call, options_.axis)), 0.0);
  if (report.evident()) return GroupFailure{report.culprit, report.text};
  if (!closed) return std::nullopt;
  return closed_connection(options_.axis, *closed, describe(call, options_.axis));
}

GroupFailure DeviceWatch::explain(const Call& call, const std::string& problem) const {
  const RankRow wait = wait_in(call, options_.axis, others_in(call, options_.axis));
  // The first to close is the cause: later, peers that fail because of it close theirs.
  std::optional<int> closed = options_.closed_peer();
  const RankTable::Report report = options_.table->report(wait, 0.0, kToFinishCall);
  if (report.evident()) return {report.culprit, report.text};
  if (!closed) closed = options_.closed_peer();
  if (closed) return closed_connection(options_.axis, *closed, describe(call, options_.axis));
  return {-1, fmt::format("{} in {}{}: {}", rank_name(options_.axis, options_.axis.index), describe(call, options_.axis),
                          others_text(call, wait.awaits), problem)};
}

std::string DeviceWatch::engine_error() {
  if (!reports_errors_) return {};
  try {
    switch (options_.engine->getError()) {
      case c10d::ErrorType::SUCCESS:
        return {};
      case c10d::ErrorType::TIMEOUT:
        return fmt::format("{} reports that its time limit has passed", options_.engine->getBackendName());
      case c10d::ErrorType::COMM_ERROR:
        return fmt::format("{} reports an error of communication", options_.engine->getBackendName());
      case c10d::ErrorType::REMOTE_ERROR:
        return fmt::format("{} reports an error of another rank", options_.engine->getBackendName());
    }
  } catch (const c10::Error&) {  // not every engine tells
    reports_errors_ = false;
  }
  return {};
}

}  // namespace weft
