#include "weft/report/records/record_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <system_error>

#include "weft/base/error.h"
#include "weft/base/storage_error.h"
#include "weft/report/records/record_text.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

std::string numbered(const char* name, int number) {
  const fs::path path(name);
  return fmt::format("{}-{}{}", path.stem().string(), number, path.extension().string());
}

/// Renames what an earlier run kept to the first number that none of it has.
void set_aside(const fs::path& folder) {
  constexpr const char* kAll[] = {kEventsFile, kMetricsFile, "metrics.csv", "evaluations.csv", "tensorboard"};
  int number = 1;
  const auto is_taken = [&](const char* name) { return fs::exists(folder / numbered(name, number)); };
  while (std::any_of(std::begin(kAll), std::end(kAll), is_taken)) ++number;
  for (const char* name : kAll) {
    if (fs::exists(folder / name)) fs::rename(folder / name, folder / numbered(name, number));
  }
}

std::unique_ptr<AppendedFile> opened(const fs::path& folder, const char* name) {
  return std::make_unique<AppendedFile>((folder / name).string());
}

}  // namespace

void check_record_folder(const std::string& folder) {
  fs::path path = fs::absolute(folder);
  const auto refuse = [&](const char* why) { throw InputError(fmt::format("cannot keep records in {}: {}", folder, why)); };
  std::error_code ignored;
  while (!fs::exists(path, ignored) && path.has_relative_path()) path = path.parent_path();
  if (!fs::is_directory(path, ignored)) refuse("it is not a folder, or a part of its path is not");
  if (access(path.c_str(), W_OK | X_OK) != 0) refuse("this user may not write there");
}

std::string text_of_records(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return "";
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void append_events(const std::string& folder, const std::vector<EventRecord>& events) noexcept {
  try {
    if (events.empty() || folder.empty() || !fs::exists(fs::path(folder) / kEventsFile)) return;
    RecordFiles files(folder, std::numeric_limits<int64_t>::max());  // cuts nothing
    for (const EventRecord& event : events) files.add(event);
    files.flush();
  } catch (const std::exception&) {
  }
}

RecordFiles::RecordFiles(const std::string& folder, int64_t steps_done) : folder_(folder), steps_done_(steps_done) {
  std::error_code failed;
  fs::create_directories(folder_, failed);
  if (failed && !fs::is_directory(folder_))
    throw InputError(fmt::format("cannot make folder {}: {}", folder, failed.message()));
  try {
    open();
  } catch (const HeldError&) {
    if (steps_done == 0) throw;  // another run's
  }
}

void RecordFiles::open() {
  auto events = opened(folder_, kEventsFile), metrics = opened(folder_, kMetricsFile);
  if (steps_done_ == 0 && metrics->bytes() > 0) {
    set_aside(folder_);
    events = opened(folder_, kEventsFile);
    metrics = opened(folder_, kMetricsFile);
  }
  events->truncate(events->whole_lines([](std::string_view) { return true; }));
  metrics->truncate(metrics->whole_lines([&](std::string_view line) { return !is_of_later_step(line, steps_done_); }));
  events_.file = std::move(events);
  metrics_.file = std::move(metrics);
}

void RecordFiles::add(const Record& record) { add_line(record, metrics_.waiting, events_.waiting); }

/// Returns whether the file was removed, and is made anew.
bool RecordFiles::File::flush() {
  if (waiting.empty()) return false;
  const bool was_removed = file->remake_if_removed();
  file->append(waiting);
  waiting.clear();
  return was_removed;
}

void RecordFiles::flush() {
  if (!events_.file) open();
  std::string removed;
  for (File* one : {&events_, &metrics_}) {
    if (one->flush()) removed = one->file->path();
  }
  if (!removed.empty()) throw IoError(removed + " was removed while the run wrote it, and is made anew");
}

}  // namespace weft
