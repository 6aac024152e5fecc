// The error pipe: carries a failing rank's error to its launcher, which prints the culprit's line last, once, with its rank.
//
// A failing rank calls report_error() instead of writing to stderr. A message is one line, "<monotonic ns> <rank>
// self|peer|peer:<culprit>[/<status>] <text>", short enough for an atomic write (PIPE_BUF), so ranks may share the pipe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/file_descriptor.h"

namespace weft {

/// Who is to blame. An error in a collective may be an echo of another rank's failure, which then takes precedence.
enum class Blame { self, peer };

/// A message: why a rank is about to end.
struct RankError {
  int64_t time_ns = 0;        ///< CLOCK_MONOTONIC, the same clock in all processes of a host
  int rank = 0;               ///< world rank of the rank that ends
  Blame blame = Blame::self;  ///< as the rank sees it
  int culprit = -1;           ///< the rank that the text begins with, for Blame::peer; -1: no rank
  int status = 1;             ///< with which the rank is about to end
  std::string text;           ///< one line
};

/// Reports to the launcher why this process is about to end. Returns false if no launcher listens (WEFT_ERROR_FD is unset, or
/// is not the pipe of a live launcher); then the caller prints. Long texts are cut; line ends become blanks. For `culprit` and
/// `status`, which the launcher may not see as it ends all ranks, see RankError.
bool report_error(std::string_view text, Blame blame = Blame::self, int culprit = -1, int status = 1);

/// The launcher's side.
class ErrorPipe {
 public:
  ErrorPipe();
  /// The end that the launcher polls; non-blocking.
  int read_end() const { return read_end_.get(); }
  /// The end that ranks inherit.
  int write_end() const { return write_end_.get(); }
  /// How ranks find it: "WEFT_ERROR_FD=7", and the inode number of the pipe.
  std::vector<std::string> environment() const;
  /// Returns the messages since the last call; never blocks. Malformed lines are ignored.
  std::vector<RankError> receive();

 private:
  FileDescriptor read_end_, write_end_;
  std::string partial_;
};

}  // namespace weft
