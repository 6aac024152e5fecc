// CallLog: a group's last calls on this rank, kept for the case that one of them does not end (train/stopped). It costs some
// 100 ns per call and allocates nothing after its construction.
//
// CallLogs: the logs of a world's groups, while those live.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "weft/comm/call/axis.h"
#include "weft/comm/call/call.h"

namespace weft {

/// A call as its log has it.
struct LoggedCall {
  using Time = std::chrono::steady_clock::time_point;
  static constexpr size_t kNameBytes = 64;  ///< longer names are cut

  uint64_t serial = 0;  ///< of this rank's calls on the group, messages included, from 1; 0: none
  uint64_t order = 0;   ///< of its calls on all the world's groups, from 1
  /// Of the collectives on the group, from 1, the same on all its ranks; of a message: of those to, or from, that peer.
  uint64_t number = 0;
  Operation operation = Operation::none;
  ReduceOp reduce = ReduceOp::sum;
  at::ScalarType dtype = at::kByte;
  int root = -1;  ///< position of the root or peer
  int64_t numel = 0;
  Time begun = {};   ///< when it was made
  Time waited = {};  ///< when the rank began to wait for it; zero: it has not
  Time ended = {};   ///< when the rank was done with it; on a device, when its stream was made to wait for it; zero: not yet
  bool is_in_background = false;  ///< it was handed over; without that the rank waits in the call itself
  std::array<char, kNameBytes> what = {};

  bool is_message() const { return operation == Operation::send || operation == Operation::receive; }
};

class CallLog {
 public:
  static constexpr size_t kKept = 64;

  explicit CallLog(const Axis& axis);

  /// Before its first call: the group's name, the same on all its ranks and unique among the world's, its back end's, and the
  /// number of calls on all groups so far.
  void set_group(std::string id, std::string backend, std::shared_ptr<std::atomic<uint64_t>> calls);
  /// A call begins; returns its serial.
  uint64_t begin(const Call& call, LoggedCall::Time now);
  void hand_over(uint64_t serial);  ///< to a thread or a device: the rank goes on
  void waits(uint64_t serial, LoggedCall::Time now);
  void end(uint64_t serial, LoggedCall::Time now);

  struct Content {
    std::string id, backend;
    Axis axis;
    uint64_t collectives = 0;       ///< made so far
    std::vector<LoggedCall> calls;  ///< oldest first
  };
  Content content() const;

 private:
  LoggedCall* find(uint64_t serial);

  mutable std::mutex mutex_;
  Axis axis_;
  std::string id_, backend_;
  std::shared_ptr<std::atomic<uint64_t>> all_calls_ = std::make_shared<std::atomic<uint64_t>>(0);
  uint64_t serial_ = 0, collectives_ = 0;
  std::vector<uint64_t> sent_, received_;  ///< messages by peer
  std::array<LoggedCall, kKept> calls_ = {};
};

/// Logs of the groups of one world on this rank. Thread-safe.
class CallLogs {
 public:
  /// Before the group's first call (CallLog::set_group()).
  void add(const std::shared_ptr<CallLog>& log, std::string id, std::string backend);
  std::vector<CallLog::Content> content() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<CallLog>> logs_;
  std::shared_ptr<std::atomic<uint64_t>> calls_ = std::make_shared<std::atomic<uint64_t>>(0);
};

}  // namespace weft
