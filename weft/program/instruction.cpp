#include "weft/program/instruction.h"

#include <fmt/format.h>

namespace weft {
namespace {

std::string block_text(const std::vector<std::string>& names, int block) {
  const bool known = block >= 0 && block < static_cast<int>(names.size());
  return known ? fmt::format("{} '{}'", block, names[block]) : fmt::format("{}", block);
}

// Errors may describe instructions with blocks out of range: avoid overflow.
std::string range_text(const Instruction& x, const std::vector<std::string>& names) {
  if (x.last <= x.first) return fmt::format("blocks [{}, {})", x.first, x.last);
  if (x.last - 1 == x.first) return "block " + block_text(names, x.first);
  return fmt::format("blocks {} to {}", block_text(names, x.first), block_text(names, x.last - 1));
}

// Data that a send or a receive moves.
std::string message_text(const Instruction& x, const std::vector<std::string>& names) {
  if (x.what == Payload::batch) return fmt::format("micro-batch {}", x.micro);
  if (x.what == Payload::weights) return "the weights of " + range_text(x, names);
  if (x.what == Payload::sum) return "the summed gradients of " + range_text(x, names);
  return fmt::format("{} of {}, micro-batch {}", x.what == Payload::gradient ? "the gradient of the output" : "the output",
                     range_text(x, names), x.micro);
}

}  // namespace

std::string describe(const Instruction& x, const std::vector<std::string>& block_names) {
  switch (x.op) {
    case Op::load:
    case Op::loss:
      return fmt::format("{} of micro-batch {}", name(x.op), x.micro);
    case Op::forward:
    case Op::backward:
    case Op::backward_input:
    case Op::backward_weight:
    case Op::drop:
      return fmt::format("{} of {} on micro-batch {}", name(x.op), range_text(x, block_names), x.micro);
    case Op::squares:
      return fmt::format("{} of {} after micro-batch {}", name(x.op), range_text(x, block_names), x.micro);
    case Op::reduce_scatter:
      return fmt::format("{} of {} up to micro-batch {}", name(x.op), range_text(x, block_names), x.micro);
    case Op::send:
    case Op::receive:
      return fmt::format("{} of {}, {} pipeline rank {}", name(x.op), message_text(x, block_names),
                         x.op == Op::send ? "to" : "from", x.peer);
    case Op::offload:
    case Op::reload:
      return fmt::format("{} of the {} of {}{}", name(x.op), name(x.what), range_text(x, block_names),
                         x.what == Payload::input ? fmt::format(", micro-batch {}", x.micro) : "");
    case Op::combine:
      return fmt::format("combine of slot {}, {}", x.slot, range_text(x, block_names));
    case Op::reduce_loss:
      return "reduce_loss";
    case Op::gather:
      return fmt::format("gather of {}{}", range_text(x, block_names), x.axes == kInnerAxis ? " over the inner shards" : "");
    case Op::release:
      return fmt::format("release of {}{}", range_text(x, block_names), x.keeps_inner_shard ? ", keeping the inner shard" : "");
    case Op::reduce:
    case Op::norm:
    case Op::gather_gradients:
    case Op::update:
      return fmt::format("{} of {}", name(x.op), range_text(x, block_names));
  }
  return "unknown";
}

}  // namespace weft
