// BucketRecords: a run's records in a bucket, as parts of files (report/records/record_parts.h).
//
// Lines are written every 15 s, before a save and at the end: a process that is killed loses what is not uploaded. Traffic: a
// part of at most 1 MiB each time, and what is new. A process that resumes cuts off lines of steps that are done again. Nothing
// is asked of the bucket before the first flush(), and what fails is tried again.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "weft/checkpoint/storage/storage.h"
#include "weft/report/records/record_sink.h"

namespace weft {

struct BucketRecordsOptions {
  std::string place = {};                ///< for open_storage(): the run's folder
  int64_t steps_done = 0;                ///< of the run, when this process takes over
  std::optional<LockOptions> lock = {};  ///< for a place that the run does not hold already
  size_t part_bytes = size_t{1} << 20;   ///< most of a part, unless a line is longer
  std::chrono::milliseconds period{15'000};
};

class BucketRecords : public RecordSink {
 public:
  /// Throws InputError for a URL that weft cannot open.
  explicit BucketRecords(BucketRecordsOptions options);

  std::string name() const override { return "the upload of records to " + options_.place; }
  void add(const Record& record) override;
  /// Throws what the storage does, and keeps the lines, kMostBytesWaiting at most; HeldError if another run has the place: then
  /// it keeps none from there on.
  void flush() override;
  void flush_asked() override;

 private:
  struct File {
    const char* name;          ///< without a part's number
    int part = 1;              ///< the last
    std::string text = {};     ///< of that part, in the bucket
    std::string waiting = {};  ///< lines that are not there
  };
  void open();
  void take_over(File& file, bool cuts);
  void write(File& file);
  std::string path_of(const File& file) const;

  BucketRecordsOptions options_;
  std::unique_ptr<Storage> storage_;
  std::shared_ptr<StorageLock> lock_;
  std::string folder_ = {};  ///< records-N; empty: not opened
  bool is_refused_ = false;  ///< another run has the place
  File metrics_, events_;
  std::chrono::steady_clock::time_point written_ = {};  ///< or tried
};

}  // namespace weft
