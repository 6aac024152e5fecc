#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "weft/exported/operation.h"

namespace weft {
namespace {

/// Tensors among the constants are wrapped numbers.
std::string constant_text(const c10::IValue& constant) {
  std::ostringstream text;
  if (constant.isTensor())
    text << constant.toTensor().scalar_type() << ' ' << constant.toTensor().item();
  else
    text << constant;
  return text.str();
}

std::string split_text(const SplitCall& split) {
  std::string text = fmt::format(" split {} {} {}", static_cast<int>(split.layer), split.dim, split.segments);
  for (const SplitChange& x : split.changes)
    text += fmt::format(" {}:{}:{}:{}", static_cast<int>(x.kind), x.argument, x.element, x.dim);
  return text;
}

}  // namespace

std::string operations_text(const std::vector<Operation>& operations) {
  std::string text;
  for (const Operation& x : operations) {
    text += fmt::format("{} {} {} {} {} {} ->{};", x.target, static_cast<int>(x.kind), x.factor, x.dim, x.evaluated, x.no_grad,
                        x.outputs);
    for (const Operand& operand : x.operands) {
      text += fmt::format(" {} {} {} {}", static_cast<int>(operand.kind), operand.slots, operand.integers,
                          constant_text(operand.constant));
    }
    text += (x.split ? split_text(*x.split) : "") + "\n";
  }
  return text;
}

}  // namespace weft
