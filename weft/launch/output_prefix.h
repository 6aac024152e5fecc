// OutputPrefix: the output of ranks, each line with the rank that wrote it in front: "[rank 3] ...", "[host b, rank 3] ...".
//
// A thread reads the ranks' pipes, so that a reader of the launcher's output who is slow holds up the ranks, as a pipe of their
// own would, but not the launcher. A line longer than 64 KiB is cut into several.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/file_descriptor.h"
#include "weft/base/stopwatch.h"

namespace weft {

/// Puts the rank before each line.
class OutputPrefix {
 public:
  /// A rank's ends of its pipes.
  struct Ends {
    FileDescriptor out, err;
  };

  OutputPrefix();
  /// Passes on what is there, for two seconds at most, and ends.
  ~OutputPrefix();
  OutputPrefix(const OutputPrefix&) = delete;
  OutputPrefix& operator=(const OutputPrefix&) = delete;

  /// Pipes for one rank; before start(). `host` may be empty. Throws Error where the system refuses.
  Ends add(const std::string& host, int rank);
  /// Starts passing on.
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
  FileDescriptor stop_;              ///< eventfd, readable once the end is wanted
  std::optional<Stopwatch> ending_;  ///< since that was seen, by the thread
  std::thread thread_;
};

}  // namespace weft
