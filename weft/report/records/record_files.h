// RecordFiles: a run's records in its folder: metrics.jsonl (steps, evaluations) and events.jsonl, a line each.
//
// Lines are whole, and written within about a second. A process that is killed loses at most that second; a process that
// resumes goes on in the same files, from the step it resumes from: later lines, of steps that are done again, are cut off. A
// run that begins anew in a folder with an earlier run's files renames them, and what other sinks kept: metrics-1.jsonl,
// tensorboard-1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "weft/report/records/appended_file.h"
#include "weft/report/records/record_sink.h"

namespace weft {

inline constexpr const char* kMetricsFile = "metrics.jsonl";
inline constexpr const char* kEventsFile = "events.jsonl";

/// Throws InputError unless records can be written to files of `folder`, which need not exist yet.
void check_record_folder(const std::string& folder);

/// What a file of records holds; empty where it is missing, or no regular file.
std::string text_of_records(const std::filesystem::path& path);

/// Adds events to those of `folder`, which has some; nothing if that fails, as a run's own error says more.
void append_events(const std::string& folder, const std::vector<EventRecord>& events) noexcept;

class RecordFiles : public RecordSink {
 public:
  /// Makes the folder. `steps_done`: of the run, when this process takes over. A process that resumes waits in flush() for the
  /// one before it to end, which may hold the files a while where its host was lost. Throws HeldError if another run writes
  /// there, InputError if the files cannot be written.
  RecordFiles(const std::string& folder, int64_t steps_done);

  std::string name() const override { return "the file of records"; }
  void add(const Record& record) override;
  /// On a full disk, and while the files are held, keeps the lines for the next call, kMostBytesWaiting at most, and throws.
  void flush() override;

 private:
  void open();

  struct File {
    std::unique_ptr<AppendedFile> file = {};  ///< null while it is held
    std::string waiting = {};
    bool flush();
  };
  std::filesystem::path folder_;
  int64_t steps_done_;
  File metrics_, events_;
};

}  // namespace weft
