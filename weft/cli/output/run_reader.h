// RunReader: reads a run's records from its folder or bucket, again and again as they grow: metrics.jsonl and events.jsonl, or
// the newest parts of them (report/records/record_parts.h); and where runs are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "weft/checkpoint/storage/storage.h"
#include "weft/report/history/run_history.h"

namespace weft {

/// Whether a local folder has records of a run.
bool has_records(const std::string& place);

class RunReader {
 public:
  /// `place`: the run's folder or URL, or a metrics.jsonl in it; `values`: those of steps to read, all if empty. Throws
  /// InputError if it has no records; the text names runs below it.
  explicit RunReader(const std::string& place, std::vector<std::string> values = {});

  /// Reads what is new.
  void refresh();
  /// Reads all anew the next time.
  void forget() { is_behind_ = true; }
  const RunHistory& run() const { return run_; }
  /// Another file beside the records, such as "profile/profile.txt"; empty: there is none. Throws InputError if it is longer.
  std::string file(const std::string& name, int64_t most_bytes) const;

 private:
  struct Place {
    std::string path;
    int64_t bytes = 0;
  };
  MetricsReader new_reader() const;
  std::vector<std::string> files_of(const char* name);
  bool has_shrunk(const std::vector<std::string>& files);
  void read_metrics(const std::vector<std::string>& files);

  std::unique_ptr<Storage> storage_;
  std::vector<std::string> values_;
  size_t threads_;
  RunHistory run_;
  std::vector<Place> metrics_ = {};  ///< read, to the last one's bytes
  bool is_behind_ = false;           ///< all is to be read
  double started_s_ = 0.0;           ///< time of the newest start
};

/// Reads runs. Throws InputError as RunReader does, and for a run that is named twice.
std::vector<RunReader> read_runs(const std::vector<std::string>& places, const std::vector<std::string>& values = {});
/// What they have read; valid as long as they are.
std::vector<const RunHistory*> histories_of(const std::vector<RunReader>& readers);

/// The folders with records below `root`, down to `depth` levels, and itself; relative to it. Folders that cannot be read are
/// passed over.
std::vector<std::filesystem::path> runs_below(const std::filesystem::path& root, int depth);

}  // namespace weft
