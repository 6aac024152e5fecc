// OutputPrefix: prefixes each line of the ranks' output with its rank: "[rank 3] ...", "[host b, rank 3] ...".
//
// A thread reads the ranks' pipes. A slow reader of the launcher's output thus slows the ranks, as with a direct pipe, but not
// the launcher. Lines longer than 64 KiB are split.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/file_descriptor.h"
#include "weft/base/stopwatch.h"

namespace weft {

/// Prefixes each line with the rank.
class OutputPrefix {
 public:
  /// A rank's ends of its pipes.
  struct Ends {
    FileDescriptor out, err;
  };

  OutputPrefix();
  /// Passes on what has arrived, for at most two seconds, and ends.
  ~OutputPrefix();
  OutputPrefix(const OutputPrefix&) = delete;
  OutputPrefix& operator=(const OutputPrefix&) = delete;

  /// Creates the pipes of one rank; before start(). `host` may be empty. Throws Error if the system refuses.
  Ends add(const std::string& host, int rank);
  /// Starts passing lines on.
  void start();

 private:
  struct Stream {
    FileDescriptor from;
    int to = -1;
    std::string prefix, line;
  };

  void run();
  bool read_some(Stream& stream);
  void write_line(Stream& stream);
  bool is_ending();
  int left_ms() const;

  std::vector<Stream> streams_;
  FileDescriptor stop_;              ///< eventfd, readable once the end is requested
  std::optional<Stopwatch> ending_;  ///< since the thread saw the request
  std::thread thread_;
};

}  // namespace weft
