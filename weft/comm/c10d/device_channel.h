// DeviceChannel: one engine of a device between some ranks, with what weft adds to it. Groups of the same ranks share one.
//
// The engine runs each call on its own stream, after the work on the caller's stream, and a Work makes the caller's stream wait
// for it; the host continues. Beside it
// - a companion Gloo group compares the calls in its own thread, and MessageChecks the two calls of each message; it also moves
//   tensors of the host,
// - DeviceWatch follows the calls in flight in another.
// A mismatch, a rank that has gone or a missed deadline aborts the calls in flight and is thrown by the next call or wait.
//
// Order: NCCL deadlocks if two communicators that share ranks run their calls in different orders on two ranks. A rank's calls
// of all channels begin in one order, that of its program: one thread issues them. verify() has checked that ranks which
// execute their lists in that order, each call and message blocking until its partners are there, come to the end
// (program/verify/transfer_check.h, inner_check.h). The messages of a channel share its stream, so they keep that order too.
// Whatever else a trainer calls, it calls on all ranks in the same order.
//
// When the constructor returns, connections have been made and used: those of collectives and, by GroupOptions, between all
// pairs or neighbours. A first message between other pairs waits for theirs.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "weft/base/error.h"
#include "weft/comm/c10d/device_watch.h"
#include "weft/comm/c10d/gloo_backend.h"
#include "weft/comm/c10d/message_checks.h"
#include "weft/comm/call/backend.h"

namespace weft {

class DeviceChannel {
 public:
  /// Returns the channel of the plan's ranks: one that they share already, or a new one. Returns when all of them have joined.
  static std::shared_ptr<DeviceChannel> join(const GroupPlan& plan);
  explicit DeviceChannel(const GroupPlan& plan);
  /// Finishes the calls in flight, which peers take part in, unless this rank leaves after an error; waits for at most the
  /// group's time limit.
  ~DeviceChannel();
  DeviceChannel(const DeviceChannel&) = delete;
  DeviceChannel& operator=(const DeviceChannel&) = delete;

  std::string_view kind() const { return kind_; }  ///< the engine's name
  const Axis& axis() const { return axis_; }       ///< named as in the first group
  at::Device device() const { return device_; }
  const c10::intrusive_ptr<c10d::Backend>& engine() const { return engine_; }

  /// Begins to compare the ranks' calls; returns what to wait for, if anybody does.
  Work compare(const Call& call) { return records_->compare(call); }
  void compare_message(const Call& call) { messages_->add(call); }
  Backend& host() { return *records_; }  ///< the companion group, for messages from host to host
  /// Waits until the messages so far have been compared, or the group has failed.
  void finish_messages() { messages_->finish(timeout_); }
  /// Follows what the current stream has been given, as part of the call.
  void follow_stream(const Call& call);
  /// Follows a call whose last operation is `work`; not one that is captured, which nobody may ask about.
  std::shared_ptr<DeviceCall> follow(const Call& call, const c10::intrusive_ptr<c10d::Work>& work);
  void throw_if_failed() { records_->throw_if_failed(); }
  /// Throws why the channel has ended if that explains `error` of the device in `what`.
  void explain(const std::exception& error, std::string_view what);
  /// Runs `action`, part of a call; its error names the call and, if the channel has failed, the cause.
  template <class Action>
  void or_name(const Call& call, const Action& action) {
    throw_if_failed();
    try {
      action();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      report(call, error);
    }
  }

 private:
  [[noreturn]] void report(const Call& call, const std::exception& error);
  void warm_up(const GroupPlan& plan);
  void pass_on(int to, int from, const GroupPlan& plan);
  /// Ends the calls in flight, in a thread of its own: NCCL returns only when no captured graph holds calls of the channel,
  /// which the caller may be the one to drop.
  void abort();

  Axis axis_;
  at::Device device_;
  std::chrono::milliseconds timeout_;
  std::string id_;  ///< the same on its ranks, and unique
  std::shared_ptr<GlooBackend> records_;
  c10::intrusive_ptr<c10d::Backend> engine_;
  std::string kind_;
  std::atomic<bool> aborted_ = false;
  std::thread aborting_;  ///< once aborted_
  std::unique_ptr<MessageChecks> messages_;
  std::unique_ptr<DeviceWatch> watch_;
};

}  // namespace weft
