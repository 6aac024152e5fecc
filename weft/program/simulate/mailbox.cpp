#include "weft/program/simulate/mailbox.h"

#include <algorithm>

namespace weft {

Mailbox::Message Mailbox::send(const InstructionRef& from, int to, double time_s, double bytes, const Link& link) {
  Pair& pair = pairs_[{from.side, to}];
  Message message{.send = from.index, .begin_s = std::max(time_s, pair.free_s)};
  message.end_s = message.begin_s + link.seconds(bytes);
  pair.free_s = message.begin_s + bytes / link.bytes_per_s;
  pair.sent.push_back(message);
  return message;
}

void Mailbox::expect(int from, const InstructionRef& to) { pairs_[{from, to.side}].expected.push_back(to.index); }

std::optional<Mailbox::Delivery> Mailbox::take(int from, int to) {
  Pair& pair = pairs_[{from, to}];
  if (pair.sent.empty() || pair.expected.empty()) return {};
  const Delivery delivery{.message = pair.sent.front(), .receive = {.side = to, .index = pair.expected.front()}};
  pair.sent.pop_front();
  pair.expected.pop_front();
  return delivery;
}

std::optional<InstructionRef> Mailbox::left_over() const {
  for (const auto& [sides, pair] : pairs_) {
    if (!pair.sent.empty()) return InstructionRef{.side = sides.first, .index = pair.sent.front().send};
  }
  return {};
}

}  // namespace weft
