#include "weft/report/sinks/tensorboard_sink.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "weft/base/error.h"
#include "weft/base/system_host.h"
#include "weft/report/records/record_text.h"
#include "weft/report/sinks/event_file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

/// TensorBoard reads the files of a folder in the order of their names, so of their times.
std::string new_path(const fs::path& folder, double now) {
  const std::string named = system_host_name(), host = named.empty() ? "host" : named;
  for (int number = 0;; ++number) {
    const fs::path path =
        folder / fmt::format("events.out.tfevents.{:010d}.{}.{}.{}", static_cast<int64_t>(now), host, getpid(), number);
    if (!fs::exists(path)) return path.string();
  }
}

/// A table in Markdown.
std::string table_of(const EventRecord& record) {
  std::string text = record.text;
  if (!record.details.empty()) text += "\n\n| key | value |\n|---|---|\n";
  for (const auto& [name, value] : record.details) text += fmt::format("| {} | {} |\n", name, value);
  return text;
}

}  // namespace

TensorBoardSink::TensorBoardSink(const std::string& folder, int64_t steps_done) {
  const fs::path path = fs::path(folder) / "tensorboard";
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) throw InputError(fmt::format("cannot make folder {}: {}", path.string(), failed.message()));
  const double now = unix_time_s();
  file_ = std::make_unique<AppendedFile>(new_path(path, now));
  waiting_ = event_version(now);
  if (steps_done > 0) waiting_ += event_restart(now, steps_done + 1);
}

void TensorBoardSink::add(const Record& record) {
  if (waiting_.size() >= kMostBytesWaiting) return;
  if (const auto* step = std::get_if<StepRecord>(&record)) {
    waiting_ += event_scalars(step->time_s, step->step, "", step->values);
  } else if (const auto* evaluation = std::get_if<EvaluationRecord>(&record)) {
    waiting_ += event_scalars(evaluation->time_s, evaluation->step, evaluation->set + "/", evaluation->values);
  } else if (const auto* event = std::get_if<EventRecord>(&record)) {
    waiting_ += event_text(event->time_s, event->step, event->kind, table_of(*event));
  } else if (const auto* histogram = std::get_if<HistogramRecord>(&record)) {
    waiting_ += event_histogram(histogram->time_s, histogram->step, histogram->name, histogram->values);
    if (waiting_.size() >= kMostBytesWaiting / 2) write_early();
  }
}

/// A look at a large model is more than may wait.
void TensorBoardSink::write_early() {
  try {
    flush();
  } catch (const std::exception&) {  // the next flush() says it
  }
}

void TensorBoardSink::flush() {
  if (waiting_.empty()) return;
  file_->append(waiting_);
  waiting_.clear();
}

}  // namespace weft
