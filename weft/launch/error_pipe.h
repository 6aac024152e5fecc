// The error pipe: how a rank's last words reach its launcher, so that the culprit's line is printed last, once, with its rank.
//
// A failing rank calls report_error() instead of writing to stderr. A message is one line, "<monotonic ns> <rank> self|peer|
// peer:<culprit> <text>", short enough that the kernel writes it whole (PIPE_BUF), so that ranks may share the pipe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/file_descriptor.h"

namespace weft {

/// Who is to blame. An error in a collective may be the echo of another rank's failure, and gives way to it.
enum class Blame { self, peer };

/// A message: why a rank is about to end.
struct RankError {
  int64_t time_ns = 0;        ///< CLOCK_MONOTONIC, the same clock in all processes of a host
  int rank = 0;               ///< that ends; of the world
  Blame blame = Blame::self;  ///< who is to blame, as the rank sees it
  int culprit = -1;           ///< the rank that the text begins with, Blame::peer; -1: it names none
  std::string text;           ///< one line
};

/// Tells the launcher why this process is about to end. False when no launcher listens (WEFT_ERROR_FD is not set, or names no
/// pipe of a launcher that lives): then it is for the caller to print. Long texts are cut, line ends become blanks.
/// `culprit`: see RankError.
bool report_error(std::string_view text, Blame blame = Blame::self, int culprit = -1);

/// The launcher's end.
class ErrorPipe {
 public:
  ErrorPipe();
  /// The end that the launcher polls; does not block.
  int read_end() const { return read_end_.get(); }
  /// The end that ranks inherit.
  int write_end() const { return write_end_.get(); }
  /// By which they know it: "WEFT_ERROR_FD=7", and the number that the system gave the pipe.
  std::vector<std::string> environment() const;
  /// The messages that have come in since the last call; never blocks. Lines that are no message are ignored.
  std::vector<RankError> receive();

 private:
  FileDescriptor read_end_, write_end_;
  std::string partial_;
};

}  // namespace weft
