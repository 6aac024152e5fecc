#include "weft/report/records/record_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

namespace weft {
namespace {

constexpr std::array<std::string_view, 3> kExact = {"loss", "grad_norm", "lr"};

std::string quoted(const std::string& text) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (std::all_of(text.begin(), text.end(), is_plain)) return '"' + text + '"';
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void add_number(std::string& line, double value, bool exact) {
  constexpr double kWhole = 9007199254740992.0;  // 2^53
  const auto end = std::back_inserter(line);
  if (!std::isfinite(value)) {
    line += "null";
  } else if (value == std::trunc(value) && std::fabs(value) < kWhole) {
    fmt::format_to(end, "{}", static_cast<int64_t>(value));
  } else if (exact) {
    fmt::format_to(end, "{}", value);
  } else {
    fmt::format_to(end, "{:.7g}", value);
  }
}

void add_values(std::string& line, const RecordValues& values) {
  for (const RecordValue& value : values) {
    line += ',';
    line += quoted(value.name);
    line += ':';
    add_number(line, value.value, std::find(kExact.begin(), kExact.end(), value.name) != kExact.end());
  }
}

std::string step_and_time(int64_t step, double time_s) { return fmt::format("\"step\":{},\"time\":{:.3f}", step, time_s); }

}  // namespace

std::string record_text(const StepRecord& record) {
  std::string line = "{" + step_and_time(record.step, record.time_s);
  add_values(line, record.values);
  return line + "}";
}

std::string record_text(const EvaluationRecord& record) {
  std::string line = fmt::format("{{\"evaluation\":{},{}", quoted(record.set), step_and_time(record.step, record.time_s));
  add_values(line, record.values);
  return line + "}";
}

std::string record_text(const EventRecord& record) {
  std::string line = fmt::format("{{\"event\":{},{},\"text\":{}", quoted(record.kind),
                                 step_and_time(record.step, record.time_s), quoted(record.text));
  if (!record.details.empty()) {
    line += ",\"details\":{";
    bool is_first = true;
    for (const auto& [name, value] : record.details) {
      if (!std::exchange(is_first, false)) line += ',';
      line += quoted(name) + ":" + quoted(value);
    }
    line += '}';
  }
  return line + "}";
}

void add_line(const Record& record, std::string& metrics, std::string& events) {
  const auto add = [](std::string& waiting, const auto* one) {
    if (one != nullptr && waiting.size() < kMostBytesWaiting) waiting += record_text(*one) + "\n";
  };
  add(metrics, std::get_if<StepRecord>(&record));
  add(metrics, std::get_if<EvaluationRecord>(&record));
  add(events, std::get_if<EventRecord>(&record));
}

bool is_of_later_step(std::string_view line, int64_t steps_done) {
  constexpr std::string_view kKey = "\"step\":";
  const size_t key = line.find(kKey);
  if (key == std::string_view::npos) return false;
  int64_t step = 0;
  const char* begin = line.data() + key + kKey.size();
  return std::from_chars(begin, line.data() + line.size(), step).ec == std::errc() && step > steps_done;
}

}  // namespace weft
