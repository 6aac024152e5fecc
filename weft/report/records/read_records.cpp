#include "weft/report/records/read_records.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "weft/base/in_parallel.h"
#include "weft/base/printable.h"
#include "weft/report/records/metrics_lines.h"

namespace weft {
namespace {

/// Cuts whole lines into at most `most` pieces of whole lines, of about the same size and not too small for a thread.
std::vector<std::string_view> pieces_of(std::string_view lines, size_t most) {
  constexpr size_t kLeast = size_t{64} << 10;
  const size_t size = std::max(kLeast, lines.size() / most + 1);
  std::vector<std::string_view> pieces;
  while (!lines.empty()) {
    const size_t end = lines.size() <= size ? lines.size() : lines.find('\n', size) + 1;
    pieces.push_back(lines.substr(0, end));
    lines.remove_prefix(end);
  }
  return pieces;
}

}  // namespace

struct MetricsReader::State {
  std::vector<std::string> wanted;
  size_t threads;
  Metrics metrics = {};
  std::string rest = {};  ///< of the bytes, after the last newline
  std::vector<MetricsLines> readers = {};
};

MetricsReader::MetricsReader(std::vector<std::string> names, size_t threads)
    : state_(std::make_unique<State>(State{.wanted = std::move(names), .threads = threads})) {}
MetricsReader::~MetricsReader() = default;
MetricsReader::MetricsReader(MetricsReader&&) noexcept = default;
MetricsReader& MetricsReader::operator=(MetricsReader&&) noexcept = default;

void MetricsReader::add(std::string_view bytes) {
  constexpr size_t kPieces = 4;  // of a thread: cores may be busy elsewhere
  State& s = *state_;
  const size_t first = bytes.find('\n') + 1, last = bytes.rfind('\n') + 1;
  s.rest += bytes.substr(0, first == 0 ? bytes.size() : first);
  if (first == 0) return;
  std::vector<std::string_view> pieces = pieces_of(bytes.substr(first, last - first), kPieces * s.threads);
  pieces.insert(pieces.begin(), s.rest);
  while (s.readers.size() < pieces.size()) s.readers.emplace_back(s.wanted);
  in_parallel(pieces.size(), pieces.size() > 2 ? s.threads : 1, [&](size_t i) { s.readers[i].take_lines(pieces[i]); });
  for (size_t i = 0; i < pieces.size(); ++i) s.readers[i].move_to(s.metrics);
  s.rest = bytes.substr(last);
  s.metrics.times_s.resize(s.metrics.steps.size(), kNotRecorded);
  for (MetricColumn& column : s.metrics.columns) column.values.resize(s.metrics.steps.size(), kNotRecorded);
}

const Metrics& MetricsReader::metrics() const { return state_->metrics; }

std::vector<EventRecord> parse_events(std::string_view text) {
  std::vector<EventRecord> events;
  for (size_t first = 0, newline; (newline = text.find('\n', first)) != std::string_view::npos; first = newline + 1) {
    const nlohmann::json line = nlohmann::json::parse(text.substr(first, newline - first), nullptr, /*allow_exceptions=*/false);
    try {
      const auto text_at = [&](const char* key) { return printable(line.at(key).get<std::string>()); };
      EventRecord event{.kind = text_at("event"), .step = line.at("step"), .time_s = line.at("time"), .text = text_at("text")};
      if (line.contains("details")) {
        for (const auto& [name, value] : line["details"].items())
          event.details.emplace_back(printable(name), printable(value.get<std::string>()));
      }
      events.push_back(std::move(event));
    } catch (const nlohmann::json::exception&) {
      continue;  // another program's line, or a damaged one
    }
  }
  return events;
}

}  // namespace weft
