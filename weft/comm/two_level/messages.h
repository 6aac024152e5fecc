// Messages: what ranks of different hosts send each other in a group's collectives, over c10d.
//
// Between two ranks that talk in a call the first message each way is the call's record, so calls that do not match fail with
// both sides named before their data is looked at; no round trip is spent on it.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

#include "weft/comm/call/axis.h"
#include "weft/comm/call/call.h"

namespace weft {

/// Of one call at a time. Peers are positions on the axis. Throws what c10d throws, and CommError for calls that do not match.
class Messages {
 public:
  using Pending = c10::intrusive_ptr<c10d::Work>;

  Messages(c10::intrusive_ptr<c10d::Backend> engine, Axis axis);

  /// Begins a call, the group's `number`th.
  void begin(const Call& call, uint64_t number);
  /// Sends data, flat; keeps it until finish().
  void send(int peer, const at::Tensor& data);
  /// Asks for data of that type and size; it is there after the wait for what this returns.
  Pending receive(int peer, const at::Tensor& data);
  /// Sends the record alone, to one who is sent nothing else.
  void greet(int peer);
  /// Asks for the record of one who sends nothing else.
  void expect(int peer);
  /// Waits for the peer's record and compares it.
  void check(int peer);
  void wait(int peer, const Pending& data);
  /// Waits until all that was sent has gone, and compares the records that nobody has looked at.
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
