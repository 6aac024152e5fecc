// Channels: messages between two ranks of a shm group, through a ring buffer per ordered pair of ranks.
//
// send() and receive() return immediately: data that does not fit the ring, or has not arrived, moves whenever this rank sends,
// receives or waits on the group, and at the latest in wait() on the Work. Messages between two ranks keep their order. A
// message carries its call, which the receiver compares with its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/comm/call/call.h"
#include "weft/comm/call/work.h"
#include "weft/comm/shm/members.h"
#include "weft/comm/shm/wait.h"

namespace weft::shm {

struct Ring {
  alignas(64) std::atomic<uint64_t> written{0};  ///< total bytes
  alignas(64) std::atomic<uint64_t> read{0};
};

struct RingMemory {
  std::byte* base = nullptr;
  size_t ring_bytes = 0;  ///< bytes of data after each Ring
  static size_t total_bytes(int ranks, size_t ring_bytes) {
    return static_cast<size_t>(ranks) * ranks * (sizeof(Ring) + ring_bytes);
  }
};

class Channels {
 public:
  Channels(Members& members, RingMemory memory);
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  /// Starts to send `tensor`. The channels must outlive the Work.
  Work send(const Call& call, const at::Tensor& tensor);
  Work receive(const Call& call, const at::Tensor& tensor);

 private:
  /// One side of a message. `record` is always the sender's.
  struct Message {
    CallRecord record;
    Call call;  ///< its `what` points to the string below
    std::string what;
    at::Tensor tensor;
    int peer = 0;
    size_t moved = 0;  ///< bytes of record and tensor
    size_t total() const { return sizeof(CallRecord) + tensor.nbytes(); }
    bool done() const { return moved == total(); }
    bool in_record() const { return moved < sizeof(CallRecord); }
    /// Bytes to move next.
    std::pair<std::byte*, size_t> rest();
  };
  using Queue = std::deque<std::shared_ptr<Message>>;
  class Moving;

  static std::shared_ptr<Message> make_message(const Call& call, const at::Tensor& tensor);

  Ring& ring(int from, int to) const;
  std::byte* ring_data(int from, int to) const;
  /// Moves what fits to `peer`; returns whether anything moved.
  bool push(int peer);
  bool pull(int peer);
  bool move_all();
  bool pending() const;
  void check_record(const Message& message) const;
  size_t write(int peer, const std::byte* data, size_t bytes);
  size_t read(int peer, std::byte* data, size_t bytes);
  void ring_doorbell(int peer) const;
  void wait(Blocked kind, const Call& call, const std::function<bool()>& advance);

  Members& members_;
  RingMemory memory_;
  std::vector<Queue> outgoing_, incoming_;  ///< by peer
};

}  // namespace weft::shm
