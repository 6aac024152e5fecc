#include "weft/report/records/recorder.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace weft {
namespace {

constexpr std::chrono::milliseconds kPeriod{500};
constexpr std::chrono::milliseconds kToLeave{1000};
constexpr size_t kMostRecords = 100'000;    ///< that wait
constexpr size_t kMostHistograms = 10'000;  ///< records that wait when one is added, which is larger
constexpr std::chrono::seconds kHangs{30};

using Clock = std::chrono::steady_clock;

/// What the call throws, of whatever type; empty: nothing.
std::optional<std::string> error_of(const std::function<void()>& call) {
  try {
    call();
    return std::nullopt;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of another type than std::exception";
  }
}

}  // namespace

struct Recorder::State {
  struct Slot {
    std::unique_ptr<RecordSink> sink;
    bool is_reported = false;
    bool is_dropped = false;
    std::string error = {};  ///< of the last call; empty: it has written all
  };

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Record> waiting;
  std::vector<std::string> failures, unwritten;
  bool tells_of_loss = true, tells_of_hang = true;
  std::optional<Clock::time_point> began;  ///< of the sinks' calls under way
  uint64_t asked = 0, done = 0;            ///< rounds that finish() waits for
  bool stopping = false;
  std::vector<Slot> sinks;  ///< of the thread
  std::thread thread;

  void run();
  void give(const std::deque<Record>& records, bool is_asked);
  void fail(Slot& slot, const std::string& why);
};

void Recorder::State::run() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // a closed connection of a sink is an error there; others' signals are theirs
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait_for(lock, kPeriod, [this] { return stopping || asked > done; });
    const uint64_t round = asked;
    const bool ends = stopping, is_asked = stopping || asked > done;
    std::deque<Record> records = std::exchange(waiting, {});
    began = Clock::now();
    lock.unlock();
    give(records, is_asked);
    records.clear();  // takes its time, and add() does not wait for that
    lock.lock();
    began.reset();
    done = round;
    changed.notify_all();
    if (ends && waiting.empty()) return;
  }
}

void Recorder::State::give(const std::deque<Record>& records, bool is_asked) {
  for (Slot& slot : sinks) {
    if (slot.is_dropped) continue;
    if (const auto error = error_of([&] {
          for (const Record& record : records) slot.sink->add(record);
        })) {
      slot.is_dropped = true;
      fail(slot, *error);
    } else if (const auto full = error_of([&] { is_asked ? slot.sink->flush_asked() : slot.sink->flush(); })) {
      fail(slot, *full);
    } else {
      slot.error.clear();
    }
  }
  std::vector<std::string> failing;
  for (const Slot& slot : sinks) {
    if (!slot.error.empty()) failing.push_back(fmt::format("{} fails: {}", slot.sink->name(), slot.error));
  }
  const std::lock_guard lock(mutex);
  unwritten = std::move(failing);
}

void Recorder::State::fail(Slot& slot, const std::string& why) {
  slot.error = why;
  if (std::exchange(slot.is_reported, true)) return;
  const std::lock_guard lock(mutex);
  failures.push_back(
      fmt::format("{} fails: {}; training goes on{}", slot.sink->name(), why, slot.is_dropped ? " without it" : ""));
}

Recorder::Recorder(std::vector<std::unique_ptr<RecordSink>> sinks) : state_(std::make_shared<State>()) {
  for (auto& sink : sinks) state_->sinks.push_back({.sink = std::move(sink)});
  if (state_->sinks.empty()) return;
  state_->thread = std::thread([state = state_] { state->run(); });
  pthread_setname_np(state_->thread.native_handle(), "weft-records");
}

Recorder::~Recorder() {
  if (!state_->thread.joinable()) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  finish(kToLeave) ? state_->thread.join() : state_->thread.detach();
}

void Recorder::add(Record record) {
  if (!state_->thread.joinable()) return;
  const std::lock_guard lock(state_->mutex);
  const bool is_large = std::holds_alternative<HistogramRecord>(record);
  if (state_->waiting.size() >= (is_large ? kMostHistograms : kMostRecords)) {
    if (std::exchange(state_->tells_of_loss, false)) {
      state_->failures.push_back(
          fmt::format("records are written more slowly than steps are done: some of step {} and later are lost",
                      std::visit([](const auto& one) { return one.step; }, state_->waiting.front())));
    }
    if (is_large) return;
    state_->waiting.pop_front();
  }
  state_->waiting.push_back(std::move(record));
}

void Recorder::flush_soon() {
  const std::lock_guard lock(state_->mutex);
  ++state_->asked;
  state_->changed.notify_all();
}

std::vector<std::string> Recorder::take_failures() {
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  if (s.began && Clock::now() - *s.began > kHangs && std::exchange(s.tells_of_hang, false)) {
    s.failures.push_back(fmt::format("records wait: a sink has not returned for {} s; training goes on", kHangs.count()));
  }
  return std::exchange(s.failures, {});
}

std::vector<std::string> Recorder::unwritten() {
  const std::lock_guard lock(state_->mutex);
  return state_->unwritten;
}

bool Recorder::finish(std::chrono::milliseconds longest) {
  if (!state_->thread.joinable()) return true;
  std::unique_lock lock(state_->mutex);
  const uint64_t round = ++state_->asked;
  state_->changed.notify_all();
  return state_->changed.wait_for(lock, longest, [&] { return state_->done >= round; });
}

}  // namespace weft
