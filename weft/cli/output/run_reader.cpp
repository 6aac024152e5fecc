#include "weft/cli/output/run_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <utility>

#include "weft/base/cores.h"
#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/checkpoint/storage/open_storage.h"
#include "weft/report/records/record_files.h"
#include "weft/report/records/record_parts.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

/// Visits the file from `offset` on, in blocks; returns where it ends.
int64_t read_from(Storage& storage, const std::string& name, int64_t offset,
                  const std::function<void(std::string_view)>& visit) {
  constexpr int64_t kBlock = int64_t{4} << 20;
  const std::unique_ptr<StorageReader> reader = storage.open(name);
  std::string block;
  while (offset < reader->size()) {
    block.resize(static_cast<size_t>(std::min(kBlock, reader->size() - offset)));
    reader->read(offset, block.data(), static_cast<int64_t>(block.size()));
    visit(block);
    offset += static_cast<int64_t>(block.size());
  }
  return reader->size();
}

std::string folder_of(const std::string& place) {
  const fs::path path(place);
  if (path.filename() != kMetricsFile && path.filename() != kEventsFile) return place;
  return path.has_parent_path() ? path.parent_path().string() : ".";
}

/// Why a place is no run's, and which runs are below it.
std::string no_records_text(const std::string& place) {
  constexpr int kDepth = 2;
  constexpr size_t kMost = 5;
  std::string text = fmt::format("no records of a run in {}: there is no {}; ", printable(place), kMetricsFile);
  std::vector<fs::path> below = runs_below(place, kDepth);
  if (below.empty()) return text + "name the run.folder or save.folder of a recipe";
  std::sort(below.begin(), below.end());
  text += "name a run below it: ";
  for (size_t i = 0; i < std::min(below.size(), kMost); ++i) {
    text += (i > 0 ? ", " : "") + printable((fs::path(place) / below[i]).string());
  }
  return text + (below.size() > kMost ? fmt::format(" and {} more (see weft runs)", below.size() - kMost) : "");
}

}  // namespace

bool has_records(const std::string& place) {
  const fs::path folder(folder_of(place));
  return fs::exists(folder / kMetricsFile) || fs::exists(folder / kEventsFile);
}

RunReader::RunReader(const std::string& place, std::vector<std::string> values)
    : storage_(open_storage(folder_of(place))),
      values_(std::move(values)),
      threads_(static_cast<size_t>(available_cores())),
      run_{.path = place, .reader = new_reader()} {
  if (files_of(kMetricsFile).empty() && files_of(kEventsFile).empty()) throw InputError(no_records_text(place));
  refresh();
}

MetricsReader RunReader::new_reader() const { return MetricsReader(values_, threads_); }

/// The file itself, or its parts.
std::vector<std::string> RunReader::files_of(const char* name) {
  if (storage_->has(name)) return {name};
  const int newest = newest_records(storage_->list(""));
  if (newest == 0) return {};
  std::vector<std::string> files;
  const std::string folder = records_name(newest);
  for (const int part : parts_among(storage_->list(folder), name)) files.push_back(folder + "/" + part_name(name, part));
  return files;
}

// A process that resumes cuts lines off, and one that begins anew makes other files: its "start" shows it.
void RunReader::refresh() {
  std::string events;
  for (const std::string& file : files_of(kEventsFile)) {
    read_from(*storage_, file, 0, [&](std::string_view bytes) { events += bytes; });
  }
  run_.events = parse_events(events);
  double started_s = 0.0;
  for (const EventRecord& event : run_.events) started_s = event.kind == "start" ? event.time_s : started_s;
  const std::vector<std::string> files = files_of(kMetricsFile);
  if (std::exchange(started_s_, started_s) != started_s || is_behind_ || has_shrunk(files)) {
    run_.reader = new_reader();
    metrics_.clear();
  }
  is_behind_ = true;  // if a read fails
  read_metrics(files);
  is_behind_ = false;
}

bool RunReader::has_shrunk(const std::vector<std::string>& files) {
  if (metrics_.empty()) return false;
  const Place& last = metrics_.back();
  if (files.size() < metrics_.size() || files[metrics_.size() - 1] != last.path) return true;
  return storage_->bytes_of(last.path).value_or(0) < last.bytes;
}

void RunReader::read_metrics(const std::vector<std::string>& files) {
  const auto take = [&](std::string_view piece) { run_.reader.add(piece); };
  if (!metrics_.empty()) metrics_.back().bytes = read_from(*storage_, metrics_.back().path, metrics_.back().bytes, take);
  for (size_t i = metrics_.size(); i < files.size(); ++i)
    metrics_.push_back({files[i], read_from(*storage_, files[i], 0, take)});
}

std::vector<RunReader> read_runs(const std::vector<std::string>& places, const std::vector<std::string>& values) {
  std::map<std::string, std::string> names;
  for (const std::string& place : places) {
    const auto [other, is_new] = names.try_emplace(storage_place(folder_of(place)), place);
    if (!is_new) {
      throw InputError(fmt::format("{} and {} are the same run: name it once", printable(other->second), printable(place)));
    }
  }
  std::vector<RunReader> readers;
  readers.reserve(places.size());
  for (const std::string& place : places) readers.emplace_back(place, values);
  return readers;
}

std::vector<const RunHistory*> histories_of(const std::vector<RunReader>& readers) {
  std::vector<const RunHistory*> runs;
  runs.reserve(readers.size());
  for (const RunReader& reader : readers) runs.push_back(&reader.run());
  return runs;
}

std::vector<fs::path> runs_below(const fs::path& root, int depth) {
  std::vector<fs::path> found;
  std::error_code ignored;
  if (fs::exists(root / kEventsFile, ignored)) found.emplace_back(".");
  fs::recursive_directory_iterator entry(root, fs::directory_options::skip_permission_denied, ignored), end;
  for (; entry != end; entry.increment(ignored)) {
    if (!entry->is_directory(ignored)) continue;
    if (fs::exists(entry->path() / kEventsFile, ignored)) found.push_back(entry->path().lexically_relative(root));
    if (entry.depth() + 1 >= depth) entry.disable_recursion_pending();
  }
  return found;
}

std::string RunReader::file(const std::string& name, int64_t most_bytes) const {
  return storage_->has(name) ? storage_->read_text(name, most_bytes) : std::string();
}

}  // namespace weft
