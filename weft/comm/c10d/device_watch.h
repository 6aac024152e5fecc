// DeviceWatch: a thread that follows the calls which an engine has in flight, since the host does not wait for them and may sit
// in a synchronisation with the device that only an abort ends.
//
// It looks five times per second, at the oldest call. It reports a call that the engine has failed, one that makes no progress
// for the group's time limit, and one that a rank which has ended or failed cannot finish: on this host from the table of
// ranks, on another when its connection closes.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "weft/base/deadline.h"
#include "weft/comm/call/axis.h"
#include "weft/comm/call/call.h"
#include "weft/comm/store/store_errors.h"
#include "weft/comm/wait/rank_table.h"

namespace weft {

/// A call that an engine has in flight. Does not keep its tensors.
class DeviceCall {
 public:
  DeviceCall(const Call& call, at::Device device, const c10::intrusive_ptr<c10d::Work>& work);
  DeviceCall(const DeviceCall&) = delete;
  DeviceCall& operator=(const DeviceCall&) = delete;

  /// Marks the place in the current stream where it waits for the call, whose Work may then go.
  void mark_wait();
  /// Returns whether the device has finished the call; throws its error. Thread-safe.
  bool has_ended();
  const Call& call() const { return call_; }

 private:
  std::string what_;
  Call call_;
  at::Device device_;
  std::mutex mutex_;
  c10::weak_intrusive_ptr<c10d::Work> work_;  ///< of its last operation
  c10::intrusive_ptr<c10d::Work> kept_;       ///< the same, on devices whose streams have no events: the CPU
  std::shared_ptr<c10::Event> waited_;        ///< after the place where a stream waits for it
};

/// Time in which a call that a rank has finished before it ended also finishes here.
inline constexpr std::chrono::milliseconds kToFinishCall{1000};

/// An engine's error in one line: its first, and NCCL's "Last error:", which has the cause.
std::string device_error_text(const std::exception& error);

class DeviceWatch {
 public:
  struct Options {
    Axis axis;
    std::shared_ptr<RankTable> table;
    c10::intrusive_ptr<c10d::Backend> engine;
    at::Device device;
    std::chrono::milliseconds timeout;
    bool probes;                                          ///< tries connections while a call lasts: there are other hosts
    std::function<std::optional<int>()> closed_peer;      ///< a rank whose connection has closed; thread-safe
    std::function<void(const GroupFailure&)> on_failure;  ///< called once, from the thread
  };
  explicit DeviceWatch(Options options);
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  void add(std::shared_ptr<DeviceCall> call);
  /// Returns whether all calls have ended by the deadline; false at once after a failure.
  bool finish(const Deadline& deadline);
  /// Explains a call that the engine has failed: by a rank that has gone, looked for during up to a second, or that has closed
  /// its connection, else by `problem`. Thread-safe.
  GroupFailure explain(const Call& call, const std::string& problem) const;

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  /// Looks at the oldest call until one is unfinished.
  std::optional<GroupFailure> look();
  std::optional<GroupFailure> look_at(DeviceCall& call);
  /// What a rank that has gone does to the call.
  std::optional<GroupFailure> look_for_gone(const Call& call);
  std::string engine_error();

  Options options_;
  std::shared_ptr<DeviceCall> watched_;      ///< the oldest call at the last look
  bool ended_ = false;                       ///< it had ended
  Clock::time_point since_;                  ///< when it became the oldest
  std::optional<Clock::time_point> gone_;    ///< when a rank was first seen to have gone, during this call
  Clock::time_point probed_ = Clock::now();  ///< when connections to other hosts were last tried
  bool reports_errors_ = true;               ///< the engine has getError()

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<DeviceCall>> calls_;  ///< in flight, in their order
  bool stopping_ = false;
  bool failed_ = false;
  std::thread thread_;
};

}  // namespace weft
