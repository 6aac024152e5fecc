#include "weft/recipe/run_target.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "weft/base/error.h"
#include "weft/base/parse_number.h"
#include "weft/base/printable.h"

namespace weft {
namespace {

std::string_view without_blanks(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

[[noreturn]] void refuse(const std::string& text, std::string_view why) {
  throw InputError(
      fmt::format("\"{}\" is not a target: {}; write one as \"accuracy >= 0.9\" or \"loss <= 2.1\"", shortened(text), why));
}

}  // namespace

bool RunTarget::is_reached(double loss, std::optional<double> accuracy) const {
  return metric == TargetMetric::loss ? loss <= value : accuracy && *accuracy >= value;
}

std::optional<RunTarget> parse_run_target(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const size_t sign = text.find_first_of("<>=");
  if (sign == std::string::npos || text.size() < sign + 2) refuse(text, "it has no comparison");
  const std::string_view name = without_blanks(std::string_view(text).substr(0, sign));
  const std::string_view relation = std::string_view(text).substr(sign, 2);
  const auto value = parse_number<double>(without_blanks(std::string_view(text).substr(sign + 2)));
  if (name != "accuracy" && name != "loss") refuse(text, "it must begin with accuracy or loss");
  const bool is_loss = name == "loss";
  if (relation != (is_loss ? "<=" : ">="))
    refuse(text, is_loss ? "a loss needs <= and a number" : "an accuracy needs >= and a number");
  if (!value || !std::isfinite(*value)) refuse(text, "the right-hand side is not a number");
  if (!is_loss && !(*value > 0.0 && *value <= 1.0)) refuse(text, "an accuracy must be above 0 and at most 1");
  return RunTarget{is_loss ? TargetMetric::loss : TargetMetric::accuracy, *value};
}

}  // namespace weft
