#include "weft/train/recipe/run_interval.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/parse_number.h"

namespace weft {
namespace {

/// Words for units, and how many of them one is.
const std::map<std::string, std::pair<IntervalUnit, double>>& interval_words() {
  using Unit = IntervalUnit;
  static const std::map<std::string, std::pair<Unit, double>> words = {
      {"step", {Unit::steps, 1}},      {"steps", {Unit::steps, 1}},   {"sample", {Unit::samples, 1}},
      {"samples", {Unit::samples, 1}}, {"token", {Unit::tokens, 1}},  {"tokens", {Unit::tokens, 1}},
      {"epoch", {Unit::epochs, 1}},    {"epochs", {Unit::epochs, 1}}, {"s", {Unit::seconds, 1}},
      {"min", {Unit::seconds, 60}},    {"h", {Unit::seconds, 3600}},  {"d", {Unit::seconds, 86400}},
  };
  return words;
}

}  // namespace

double RunClock::of(IntervalUnit unit) const {
  switch (unit) {
    case IntervalUnit::steps:
      return steps;
    case IntervalUnit::samples:
      return samples;
    case IntervalUnit::tokens:
      return tokens;
    case IntervalUnit::epochs:
      return epochs;
    case IntervalUnit::seconds:
      break;
  }
  return seconds;
}

bool RunInterval::passed(const RunClock& before, const RunClock& now) const {
  return amount > 0.0 && std::floor(now.of(unit) / amount) > std::floor(before.of(unit) / amount);
}

RunInterval parse_run_interval(const std::string& text) {
  if (text.empty()) return {};
  const size_t end = text.find_last_of("0123456789.") + 1;
  const auto amount = parse_number<double>(text.substr(0, end));
  const auto word = interval_words().find(text.substr(std::min(text.find_first_not_of(' ', end), text.size())));
  if (!amount || !(*amount > 0.0) || !std::isfinite(*amount) || word == interval_words().end()) {
    throw InputError(fmt::format(
        "\"{}\" is no interval; write a number above 0 and steps, samples, tokens, epochs, s, min, h or d, as in \"500 steps\"",
        text));
  }
  const auto& [unit, factor] = word->second;
  if (unit == IntervalUnit::steps && *amount != std::floor(*amount)) {
    throw InputError(fmt::format("\"{}\" is no interval; steps are whole", text));
  }
  constexpr double kLeast = 1e-6;
  if (*amount < (unit == IntervalUnit::samples || unit == IntervalUnit::tokens ? 1.0 : kLeast)) {
    throw InputError(fmt::format("\"{}\" is no interval; it is shorter than anything that a run counts", text));
  }
  return {*amount * factor, unit};
}

}  // namespace weft
