// Messages: data between ranks of different hosts in a group's collectives, over c10d.
//
// Between two ranks that communicate in a call, the first message each way is the call's record, so mismatched calls fail with
// both sides named before their data is used; this costs no extra round trip.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

#include "weft/comm/call/axis.h"
#include "weft/comm/call/call.h"

namespace weft {

/// Messages of one call at a time. Peers are positions on the axis. Throws c10d's errors, and CommError for mismatched calls.
class Messages {
 public:
  using Pending = c10::intrusive_ptr<c10d::Work>;

  Messages(c10::intrusive_ptr<c10d::Backend> engine, Axis axis);

  /// Begins a call, the group's `number`th.
  void begin(const Call& call, uint64_t number);
  /// Sends flat data and keeps it until finish().
  void send(int peer, const at::Tensor& data);
  /// Requests data of that type and size; it is complete after wait() on the result.
  Pending receive(int peer, const at::Tensor& data);
  /// Sends only the record, to a peer that gets no data.
  void greet(int peer);
  /// Requests the record of a peer that sends no data.
  void expect(int peer);
  /// Waits for the peer's record and compares it.
  void check(int peer);
  void wait(int peer, const Pending& data);
  /// Waits until all sends are done, and compares the records not checked yet.
  void finish();

 private:
  struct Record {
    at::Tensor bytes;
    Pending pending;
  };
  Pending start_send(int peer, at::Tensor data, int tag);

  c10::intrusive_ptr<c10d::Backend> engine_;
  Axis axis_;
  at::Tensor own_;  ///< record
  std::vector<bool> greeted_;
  std::map<int, Record> records_;
  std::vector<std::pair<at::Tensor, Pending>> sends_;
};

}  // namespace weft
