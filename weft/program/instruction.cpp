#include "weft/program/instruction.h"

#include <fmt/format.h>

namespace weft {
namespace {

std::string block_text(const std::vector<std::string>& names, int block) {
  const bool known = block >= 0 && block < static_cast<int>(names.size());
  return known ? fmt::format("{} '{}'", block, names[block]) : fmt::format("{}", block);
}

std::string range_text(const Instruction& x, const std::vector<std::string>& names) {
  if (x.last == x.first + 1) return "block " + block_text(names, x.first);
  return fmt::format("blocks {} to {}", block_text(names, x.first), block_text(names, x.last - 1));
}

}  // namespace

std::string_view name(Op op) {
  switch (op) {
    case Op::load:
      return "load";
    case Op::forward:
      return "forward";
    case Op::loss:
      return "loss";
    case Op::backward:
      return "backward";
    case Op::combine:
      return "combine";
    case Op::reduce:
      return "reduce";
    case Op::reduce_loss:
      return "reduce_loss";
    case Op::norm:
      return "norm";
    case Op::update:
      return "update";
  }
  return "unknown";
}

std::string_view name(Lane lane) {
  switch (lane) {
    case Lane::compute:
      return "compute";
    case Lane::comm:
      return "comm";
    case Lane::copy:
      return "copy";
  }
  return "unknown";
}

bool is_collective(Op op) { return op == Op::reduce || op == Op::reduce_loss; }

std::string describe(const Instruction& x, const std::vector<std::string>& block_names) {
  switch (x.op) {
    case Op::load:
    case Op::loss:
      return fmt::format("{} of micro-batch {}", name(x.op), x.micro);
    case Op::forward:
    case Op::backward:
      return fmt::format("{} of {} on micro-batch {}", name(x.op), range_text(x, block_names), x.micro);
    case Op::combine:
      return fmt::format("combine of slot {}, {}", x.slot, range_text(x, block_names));
    case Op::reduce_loss:
      return "reduce_loss";
    case Op::reduce:
    case Op::norm:
    case Op::update:
      return fmt::format("{} of {}", name(x.op), range_text(x, block_names));
  }
  return "unknown";
}

}  // namespace weft
