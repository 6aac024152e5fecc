// Mailbox: messages between simulated ranks, in sending order per pair.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "weft/program/simulate/hardware.h"
#include "weft/program/simulate/instruction_ref.h"

namespace weft {

class Mailbox {
 public:
  struct Message {
    int send = 0;  ///< the instruction that sent it
    double begin_s = 0.0, end_s = 0.0;
  };
  struct Delivery {
    Message message;
    InstructionRef receive;
  };

  /// Sends `bytes` from one side to another, once the previous message between them has left.
  Message send(const InstructionRef& from, int to, double time_s, double bytes, const Link& link);
  /// Records that `to` is ready to take the next message from the side `from`.
  void expect(int from, const InstructionRef& to);
  /// Returns the pair's next message and its receive, once both exist.
  std::optional<Delivery> take(int from, int to);

  /// A message that was never received.
  std::optional<InstructionRef> left_over() const;

 private:
  struct Pair {
    double free_s = 0.0;
    std::deque<Message> sent;
    std::deque<int> expected;  // receives that are ready
  };
  std::map<std::pair<int, int>, Pair> pairs_;  // from, to
};

}  // namespace weft
