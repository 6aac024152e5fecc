#include "weft/report/sinks/csv_sink.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <utility>

#include "weft/base/error.h"
#include "weft/report/records/record_text.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

/// The cells of a line without quoted newlines.
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') {
      if (quoted && i + 1 < line.size() && line[i + 1] == '"') {
        cells.back() += line[++i];
      } else {
        quoted = !quoted;
      }
    } else if (line[i] == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += line[i];
    }
  }
  return cells;
}

}  // namespace

CsvSink::Table::Table(const std::string& path, std::vector<std::string> first, int64_t steps_done)
    : path_(path), file_(std::make_unique<AppendedFile>(path)), columns_(std::move(first)), first_(columns_.size()) {
  const auto step = static_cast<size_t>(std::find(columns_.begin(), columns_.end(), "step") - columns_.begin());
  bool is_header = true, is_own = true;
  const int64_t end = file_->whole_lines([&](std::string_view line) {
    std::vector<std::string> cells = cells_of(line);
    if (std::exchange(is_header, false)) {
      is_own = cells.size() >= first_ && std::equal(columns_.begin(), columns_.end(), cells.begin());
      if (is_own) columns_ = std::move(cells);
      return is_own;
    }
    int64_t done = 0;
    const std::string& text = cells[std::min(step, cells.size() - 1)];
    const bool is_number = std::from_chars(text.data(), text.data() + text.size(), done).ec == std::errc();
    return !is_number || done <= steps_done;
  });
  const bool is_earlier = steps_done == 0 && end < file_->bytes();  // record files would have set it aside
  if (!is_own || is_earlier || (end == 0 && file_->bytes() > 0)) {
    throw InputError(fmt::format("{} is another run's or program's, or damaged: move it", path_));
  }
  file_->truncate(end);
  is_new_ = end == 0;
}

void CsvSink::Table::add(std::vector<std::string> cells, const RecordValues& values) {
  if (waiting_.size() >= kMostBytesWaiting) return;
  cells.resize(columns_.size());
  for (const RecordValue& value : values) {
    const auto place = static_cast<size_t>(
        std::find(columns_.begin() + static_cast<std::ptrdiff_t>(first_), columns_.end(), value.name) - columns_.begin());
    if (place == columns_.size()) {
      columns_.push_back(value.name);
      is_new_ = true;
    }
    cells.resize(columns_.size());
    if (std::isfinite(value.value)) cells[place] = fmt::format("{}", value.value);
  }
  waiting_ += fmt::format("{}\n", fmt::join(cells, ","));
}

/// Puts the header in front of what is there.
void CsvSink::Table::write_header() {
  std::vector<std::string> names;
  names.reserve(columns_.size());
  for (const std::string& column : columns_) names.push_back(cell(column));
  std::string text = fmt::format("{}\n", fmt::join(names, ","));
  bool is_header = true;
  file_->whole_lines([&](std::string_view line) {
    if (!std::exchange(is_header, false)) text += std::string(line) + "\n";
    return true;
  });
  const std::string partial = path_ + ".partial";
  {
    AppendedFile next(partial);
    next.truncate(0);
    next.append(text);
  }
  fs::rename(partial, path_);
  file_ = std::make_unique<AppendedFile>(path_);
  is_new_ = false;
}

void CsvSink::Table::flush() {
  if (waiting_.empty()) return;
  if (is_new_) write_header();
  file_->append(waiting_);
  waiting_.clear();
}

CsvSink::CsvSink(const std::string& folder, int64_t steps_done)
    : metrics_((fs::path(folder) / "metrics.csv").string(), {"step", "time"}, steps_done),
      evaluations_((fs::path(folder) / "evaluations.csv").string(), {"evaluation", "step", "time"}, steps_done) {}

void CsvSink::add(const Record& record) {
  if (const auto* step = std::get_if<StepRecord>(&record)) {
    metrics_.add({std::to_string(step->step), fmt::format("{:.3f}", step->time_s)}, step->values);
  } else if (const auto* evaluation = std::get_if<EvaluationRecord>(&record)) {
    evaluations_.add({cell(evaluation->set), std::to_string(evaluation->step), fmt::format("{:.3f}", evaluation->time_s)},
                     evaluation->values);
  }
}

void CsvSink::flush() {
  metrics_.flush();
  evaluations_.flush();
}

}  // namespace weft
