#include "weft/train/save/bucket_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "weft/base/storage_error.h"
#include "weft/checkpoint/storage/open_storage.h"
#include "weft/report/records/record_files.h"
#include "weft/report/records/record_parts.h"
#include "weft/report/records/record_text.h"

namespace weft {
namespace {

constexpr int64_t kMostPartBytes = int64_t{64} << 20;  ///< that is read

/// Bytes of the lines up to the first of a later step.
size_t lines_until(const std::string& text, int64_t steps_done) {
  size_t first = 0;
  for (size_t newline; (newline = text.find('\n', first)) != std::string::npos; first = newline + 1) {
    if (is_of_later_step(std::string_view(text).substr(first, newline - first), steps_done)) break;
  }
  return first;
}

}  // namespace

BucketRecords::BucketRecords(BucketRecordsOptions options)
    : options_(std::move(options)),
      storage_(open_storage(options_.place)),
      metrics_{.name = kMetricsFile},
      events_{.name = kEventsFile} {}

void BucketRecords::add(const Record& record) {
  if (!is_refused_) add_line(record, metrics_.waiting, events_.waiting);
}

void BucketRecords::flush() {
  if (written_ == decltype(written_)() || std::chrono::steady_clock::now() - written_ >= options_.period) flush_asked();
}

void BucketRecords::flush_asked() {
  written_ = std::chrono::steady_clock::now();
  if (is_refused_) return;
  try {
    if (lock_ && lock_->keep()) folder_.clear();  // others may have written meanwhile
    if (folder_.empty()) open();
  } catch (const HeldError&) {
    is_refused_ = true;
    throw;
  }
  write(metrics_);
  write(events_);
}

std::string BucketRecords::path_of(const File& file) const {
  return fmt::format("{}/{}", folder_, part_name(file.name, file.part));
}

void BucketRecords::open() {
  if (options_.lock && !lock_) lock_ = storage_->lock(*options_.lock);
  const int newest = newest_records(storage_->list(""));
  const bool is_new = options_.steps_done == 0 || newest == 0;
  folder_ = records_name(is_new ? newest + 1 : newest);
  try {
    if (!is_new) take_over(metrics_, /*cuts=*/true);
    if (!is_new) take_over(events_, /*cuts=*/false);
  } catch (...) {
    folder_.clear();
    throw;
  }
  options_.steps_done = std::numeric_limits<int64_t>::max();  // opened again, it cuts nothing
}

/// Goes on in the last part. Parts of steps that are done again are removed, the last first: a kill leaves no gap.
void BucketRecords::take_over(File& file, bool cuts) {
  for (std::vector<int> parts = parts_among(storage_->list(folder_), file.name); !parts.empty(); parts.pop_back()) {
    file.part = parts.back();
    std::string text = storage_->read_text(path_of(file), kMostPartBytes);
    const size_t kept = cuts ? lines_until(text, options_.steps_done) : text.size();
    if (kept == 0) {
      storage_->remove(path_of(file));
      continue;
    }
    if (kept < text.size()) {
      text.resize(kept);
      storage_->write_text(path_of(file), text);
    }
    file.text = std::move(text);
    return;
  }
  file.part = 1;
}

void BucketRecords::write(File& file) {
  while (!file.waiting.empty()) {
    const size_t room = options_.part_bytes - std::min(options_.part_bytes, file.text.size());
    size_t next = lines_within(file.waiting, room);
    if (next == 0 && !file.text.empty()) {
      ++file.part;
      file.text.clear();
      continue;
    }
    if (next == 0) next = file.waiting.find('\n') + 1;
    std::string text = file.text + file.waiting.substr(0, next);
    storage_->write_text(path_of(file), text);
    file.text = std::move(text);
    file.waiting.erase(0, next);
  }
}

}  // namespace weft
