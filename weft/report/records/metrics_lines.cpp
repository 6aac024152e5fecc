#include "weft/report/records/metrics_lines.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "weft/base/printable.h"

namespace weft {
namespace {

/// What a name of a step's line means, unless it is the index of a column.
constexpr size_t kLeftOut = std::numeric_limits<size_t>::max(), kStep = kLeftOut - 1, kTime = kLeftOut - 2;

constexpr std::array<double, 16> kPowers = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                            1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

/// Reads a number or null; returns where it ends, `at` if there is none.
///
/// Up to 15 digits without an exponent are the quotient of two numbers that are exact, so it is rounded once: from_chars()
/// gives the same bits, in several times the time.
const char* read_number(const char* at, const char* end, double& value) {
  value = kNotRecorded;
  if (end - at >= 4 && std::memcmp(at, "null", 4) == 0) return at + 4;
  const char* const first = at < end && *at == '-' ? at + 1 : at;
  const auto is_digit = [&](const char* one) { return one < end && *one >= '0' && *one <= '9'; };
  if (!is_digit(first)) return at;  // "inf" and "nan" are no JSON
  uint64_t digits = 0;
  size_t decimals = 0;
  const char* last = first;
  for (; is_digit(last); ++last) digits = 10 * digits + static_cast<uint64_t>(*last - '0');
  if (last < end && *last == '.') {
    for (++last; is_digit(last); ++last, ++decimals) digits = 10 * digits + static_cast<uint64_t>(*last - '0');
  }
  if (last - first >= static_cast<std::ptrdiff_t>(kPowers.size()) || (last < end && (*last == 'e' || *last == 'E'))) {
    return std::from_chars(at, end, value).ptr;  // out of range: no number
  }
  value = static_cast<double>(digits) / kPowers[decimals];
  if (first != at) value = -value;
  return last;
}

MetricColumn* find_column(std::vector<MetricColumn>& columns, std::string_view name) {
  const auto found = std::find_if(columns.begin(), columns.end(), [&](const MetricColumn& one) { return one.name == name; });
  return found == columns.end() ? nullptr : &*found;
}

}  // namespace

size_t MetricsLines::place_of(std::string_view name) {
  if (name == "step") return kStep;
  if (name == "time") return kTime;
  const std::string shown = printable(name);
  if (!wanted_->empty() && std::find(wanted_->begin(), wanted_->end(), shown) == wanted_->end()) return kLeftOut;
  std::vector<MetricColumn>& columns = metrics_.columns;
  const auto found = index_.find(shown);
  if (found != index_.end()) return found->second;
  if (columns.size() == kMostNames) {
    metrics_.has_more_names = true;
    return kLeftOut;
  }
  columns.push_back({.name = shown});
  return index_.emplace(shown, columns.size() - 1).first->second;
}

/// Takes a value other than the step. False before the step, and for a second one.
bool MetricsLines::put(size_t place, double value) {
  const size_t steps = metrics_.steps.size();
  if (steps == steps_before_ || place == kStep) return false;
  if (place == kLeftOut) return true;
  std::vector<double>& values = place == kTime ? metrics_.times_s : metrics_.columns[place].values;
  if (values.size() + 1 != steps) values.resize(steps - 1, kNotRecorded);  // earlier steps without it, or twice in a line
  values.push_back(value);
  return true;
}

/// A step's line as record_text() writes it, without escapes: false for any other, which may have been taken in part.
bool MetricsLines::take_plain(std::string_view line) {
  if (line.size() < 2 || line.front() != '{' || line.back() != '}') return false;
  const char *at = line.data() + 1, *const end = line.data() + line.size() - 1;
  for (size_t number = 0; at < end; ++number, ++at) {
    if (*at++ != '"') return false;
    const Place* place = number < places_.size() ? &places_[number] : nullptr;
    const auto room = static_cast<size_t>(end - at);
    if (place == nullptr || room <= place->name.size() || at[place->name.size()] != '"' ||
        std::memcmp(at, place->name.data(), place->name.size()) != 0) {
      const std::string_view name(at, std::min(std::string_view(at, room).find('"'), room));
      if (name.size() == room || name.find('\\') != std::string_view::npos) return false;
      places_.resize(number, {"", kLeftOut});
      place = &places_.emplace_back(Place{std::string(name), place_of(name)});
    }
    at += place->name.size() + 1;
    if (at == end || *at++ != ':') return false;
    const char* const value = at;
    if (place->column == kStep) {
      int64_t step = 0;
      const auto [after, error] = std::from_chars(at, end, step);
      if (error != std::errc() || number > 0) return false;
      metrics_.steps.push_back(step);
      at = after;
    } else {
      double read = kNotRecorded;
      at = read_number(at, end, read);
      if (at == value || !put(place->column, read)) return false;
    }
    if (at != end && *at != ',') return false;
    if (at + 1 == end) return false;  // a comma at the end
  }
  return metrics_.steps.size() > steps_before_;
}

/// Any line of JSON that is a record.
bool MetricsLines::take_any(std::string_view line) {
  const auto json = nlohmann::ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return false;
  const bool is_evaluation = json.contains("evaluation");
  if (is_evaluation && !json["evaluation"].is_string()) return false;
  constexpr uint64_t kMostSteps = std::numeric_limits<int64_t>::max();
  if (json["step"].is_number_unsigned() && json["step"].get<uint64_t>() > kMostSteps) return false;
  EvaluationRecord evaluation{.step = json["step"]};
  if (!is_evaluation) metrics_.steps.push_back(evaluation.step);
  for (const auto& [name, value] : json.items()) {
    if (name == "step") continue;
    if (name == "evaluation") {
      evaluation.set = printable(value.get_ref<const std::string&>());
      continue;
    }
    if (!value.is_number() && !value.is_null()) return false;
    const double number = value.is_null() ? kNotRecorded : value.get<double>();
    if (!is_evaluation) {
      put(place_of(name), number);
    } else if (name == "time") {
      evaluation.time_s = number;
    } else {
      evaluation.values.push_back({printable(name), number});
    }
  }
  if (is_evaluation) metrics_.evaluations.push_back(std::move(evaluation));
  return true;
}

/// Forgets the line.
void MetricsLines::undo() {
  if (metrics_.steps.size() == steps_before_ && metrics_.columns.size() == columns_before_) return;
  metrics_.steps.resize(steps_before_);
  metrics_.times_s.resize(std::min(metrics_.times_s.size(), steps_before_));
  for (size_t i = columns_before_; i < metrics_.columns.size(); ++i) index_.erase(metrics_.columns[i].name);
  metrics_.columns.resize(columns_before_);
  for (MetricColumn& column : metrics_.columns) column.values.resize(std::min(column.values.size(), steps_before_));
  places_.clear();
}

/// A line that is damaged somewhere adds nothing.
void MetricsLines::take(std::string_view line) {
  steps_before_ = metrics_.steps.size();
  columns_before_ = metrics_.columns.size();
  if (take_plain(line)) return;
  undo();
  if (take_any(line)) return;
  undo();
  ++metrics_.damaged_lines;
}

void MetricsLines::take_lines(std::string_view lines) {
  for (size_t newline; (newline = lines.find('\n')) != std::string_view::npos; lines.remove_prefix(newline + 1)) {
    take(lines.substr(0, newline));
  }
}

void MetricsLines::move_to(Metrics& all) {
  const auto append = [before = all.steps.size()](std::vector<double>& to, std::vector<double>& from) {
    if (!from.empty()) to.resize(before, kNotRecorded);
    to.insert(to.end(), from.begin(), from.end());
    from.clear();
  };
  append(all.times_s, metrics_.times_s);
  for (MetricColumn& column : metrics_.columns) {
    MetricColumn* to = find_column(all.columns, column.name);
    if (to == nullptr && all.columns.size() < kMostNames) to = &all.columns.emplace_back(MetricColumn{.name = column.name});
    if (to == nullptr) metrics_.has_more_names = true;
    if (to != nullptr) append(to->values, column.values);
    column.values.clear();
  }
  all.steps.insert(all.steps.end(), metrics_.steps.begin(), metrics_.steps.end());
  std::move(metrics_.evaluations.begin(), metrics_.evaluations.end(), std::back_inserter(all.evaluations));
  all.has_more_names |= metrics_.has_more_names;
  all.damaged_lines += std::exchange(metrics_.damaged_lines, 0);
  metrics_.steps.clear();
  metrics_.evaluations.clear();
}

}  // namespace weft
