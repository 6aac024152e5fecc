#include "weft/train/check/check_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "weft/base/units.h"

namespace weft {

namespace {

using Json = nlohmann::ordered_json;

int64_t number_of(const std::vector<CheckLine>& lines, CheckVerdict verdict) {
  return std::count_if(lines.begin(), lines.end(), [verdict](const CheckLine& line) { return line.verdict == verdict; });
}

Json line_json(const CheckLine& line) {
  return {{"name", line.name}, {"verdict", kCheckVerdicts.of(line.verdict)}, {"text", line.text}, {"advice", line.advice}};
}

Json lines_json(const std::vector<CheckLine>& lines) {
  Json array = Json::array();
  for (const CheckLine& line : lines) array.push_back(line_json(line));
  return array;
}

/// The places' findings about one thing.
struct Findings {
  std::vector<CheckLine> lines;
  std::vector<std::string> places;  ///< of the lines
};

CheckLine joined(const Findings& findings) {
  constexpr size_t kMost = 3;
  const auto has = [&](CheckVerdict verdict) { return number_of(findings.lines, verdict) > 0; };
  CheckLine result = findings.lines.front();
  result.verdict = has(CheckVerdict::failed) ? CheckVerdict::failed
                   : has(CheckVerdict::ok)   ? CheckVerdict::ok
                                             : CheckVerdict::not_checked;
  std::vector<std::string> texts, with_places;
  for (size_t i = 0; i < findings.lines.size(); ++i) {
    const CheckLine& line = findings.lines[i];
    if (line.verdict != result.verdict || std::count(texts.begin(), texts.end(), line.text) > 0) continue;
    if (texts.empty()) result.advice = line.advice;
    texts.push_back(line.text);
    with_places.push_back(fmt::format("{}: {}", findings.places[i], line.text));
  }
  const bool everywhere = texts.size() == 1 && number_of(findings.lines, result.verdict) == std::ssize(findings.lines);
  const size_t more = with_places.size() - std::min(with_places.size(), kMost);
  with_places.resize(with_places.size() - more);
  result.text = everywhere ? texts.front() : fmt::format("{}", fmt::join(with_places, "; "));
  if (more > 0) result.text += fmt::format("; and {} more", more);
  return result;
}

}  // namespace

std::string check_text(const CheckLine& line) {
  const bool is_unknown = line.verdict == CheckVerdict::not_checked;
  return fmt::format("{:<6}  {:<20}  {}{}{}\n", is_unknown ? "-" : kCheckVerdicts.of(line.verdict), line.name,
                     is_unknown ? "not checked: " : "", line.text, line.advice.empty() ? "" : "; " + line.advice);
}

std::string check_summary(const std::vector<CheckLine>& lines) {
  return fmt::format("{} ok, {} FAILED, {} not checked", number_of(lines, CheckVerdict::ok),
                     number_of(lines, CheckVerdict::failed), number_of(lines, CheckVerdict::not_checked));
}

std::string check_failure(const std::vector<CheckLine>& lines) {
  std::vector<std::string> names;
  for (const CheckLine& line : lines) {
    if (line.verdict == CheckVerdict::failed) names.push_back(line.name);
  }
  if (names.empty()) return "";
  return fmt::format("{} of {} failed: {}", names.size(), counted(std::ssize(lines), "check"), fmt::join(names, ", "));
}

std::string check_json(const std::string& heading, const std::vector<CheckLine>& lines) {
  const Json json = {{"machine", heading},
                     {"ok", number_of(lines, CheckVerdict::ok)},
                     {"failed", number_of(lines, CheckVerdict::failed)},
                     {"not_checked", number_of(lines, CheckVerdict::not_checked)},
                     {"checks", lines_json(lines)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string write_check_lines(const std::vector<CheckLine>& lines) {
  return lines_json(lines).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<CheckLine> read_check_lines(const std::string& text) {
  std::vector<CheckLine> lines;
  for (const Json& json : Json::parse(text)) {
    lines.push_back({json.at("name"), kCheckVerdicts.value_of(json.at("verdict").get<std::string>(), "a check's result"),
                     json.at("text"), json.at("advice")});
  }
  return lines;
}

std::vector<CheckLine> joined_check_lines(const std::vector<std::string>& places,
                                          const std::vector<std::vector<CheckLine>>& lines_of_places) {
  std::vector<std::string> order;
  std::map<std::string, Findings> by_name;
  for (size_t place = 0; place < places.size(); ++place) {
    for (const CheckLine& line : lines_of_places.at(place)) {
      if (by_name.count(line.name) == 0) order.push_back(line.name);
      Findings& findings = by_name[line.name];
      findings.lines.push_back(line);
      findings.places.push_back(places[place]);
    }
  }
  std::vector<CheckLine> result;
  result.reserve(order.size());
  for (const std::string& name : order) result.push_back(joined(by_name.at(name)));
  return result;
}

}  // namespace weft
