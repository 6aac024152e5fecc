#include "weft/recipe/run_length.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "weft/base/parse_number.h"

namespace weft {
namespace {

/// Unit words, and how many units each stands for.
const std::map<std::string, std::pair<LengthUnit, double>>& unit_words() {
  using Unit = LengthUnit;
  static const std::map<std::string, std::pair<Unit, double>> words = {
      {"step", {Unit::steps, 1}},      {"steps", {Unit::steps, 1}},   {"sample", {Unit::samples, 1}},
      {"samples", {Unit::samples, 1}}, {"token", {Unit::tokens, 1}},  {"tokens", {Unit::tokens, 1}},
      {"epoch", {Unit::epochs, 1}},    {"epochs", {Unit::epochs, 1}}, {"s", {Unit::seconds, 1}},
      {"min", {Unit::seconds, 60}},    {"h", {Unit::seconds, 3600}},  {"d", {Unit::seconds, 86400}},
  };
  return words;
}

/// Rounds an amount of at least 1 up to a whole number; an amount within rounding of a whole number becomes that number: 0.7
/// epochs of 60 000 samples are 42 000.
double whole(double amount) {
  if (amount <= 0.0) return amount;
  const double nearest = std::round(amount);
  const bool is_whole = std::abs(amount - nearest) < std::max(1e-6, amount * 1e-12);
  return std::max(1.0, is_whole ? nearest : std::ceil(amount));
}

}  // namespace

double RunClock::of(LengthUnit unit) const {
  switch (unit) {
    case LengthUnit::steps:
      return steps;
    case LengthUnit::samples:
      return samples;
    case LengthUnit::tokens:
      return tokens;
    case LengthUnit::epochs:
      return epochs;
    case LengthUnit::seconds:
      break;
  }
  return seconds;
}

bool RunLength::passed(const RunClock& before, const RunClock& now) const {
  return amount > 0.0 && std::floor(now.of(unit) / amount) > std::floor(before.of(unit) / amount);
}

RunLength RunLength::counted_by(const RunMeasure& measure) const {
  if (unit == LengthUnit::epochs) return {whole(amount * static_cast<double>(measure.epoch_samples)), LengthUnit::samples};
  if (unit == LengthUnit::tokens) {
    return {whole(amount / static_cast<double>(std::max<int64_t>(1, measure.sample_tokens))), LengthUnit::samples};
  }
  return unit == LengthUnit::samples ? RunLength{whole(amount), unit} : *this;
}

double RunLength::steps(const RunMeasure& measure) const {
  const RunLength counted = counted_by(measure);
  if (counted.unit == LengthUnit::steps) return counted.amount;
  return BatchSizes(measure.step_samples, measure.ramp).steps_for(counted.amount);
}

std::optional<RunLength> parse_run_length(const std::string& text) {
  const size_t end = text.find_last_of("0123456789.") + 1;
  const auto amount = parse_number<double>(text.substr(0, end));
  const auto word = unit_words().find(text.substr(std::min(text.find_first_not_of(' ', end), text.size())));
  if (!amount || !(*amount > 0.0) || !std::isfinite(*amount) || word == unit_words().end()) return std::nullopt;
  const auto& [unit, factor] = word->second;
  if (unit == LengthUnit::steps && *amount != std::floor(*amount)) return std::nullopt;
  constexpr double kLeast = 1e-6, kMost = 1e15;  // below and above any length that a run counts
  const bool counts = unit == LengthUnit::samples || unit == LengthUnit::tokens;
  if (*amount < (counts ? 1.0 : kLeast) || *amount > kMost) return std::nullopt;
  return RunLength{*amount * factor, unit};
}

std::string run_length_text(const RunLength& length) {
  if (length.unit == LengthUnit::steps) return fmt::format("{}", length.amount);
  std::string found;
  for (const auto& [word, meaning] : unit_words()) {
    const auto& [unit, factor] = meaning;
    // Singular or plural.
    if (unit == length.unit && factor == 1.0 && (found.empty() || length.amount != 1.0)) found = word;
  }
  return fmt::format("{} {}", length.amount, found);
}

}  // namespace weft
