// Runs many cases in a child process that is watched: a crash, a case that takes too long or too much memory ends the child, is
// noted, and the next case goes on in another one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace weft::fuzz {

struct Limits {
  double cpu_s = 20.0;    ///< of a case
  double wall_s = 240.0;  ///< of a case that waits; generous, for a machine with much else to do
  int64_t bytes = int64_t{2} << 30;
};

struct Failure {
  unsigned seed = 0;
  std::string what;
};

/// `run` returns what is wrong, in a line, or nothing. Called in children, for each seed; at most `most` failures are gathered.
std::vector<Failure> run_watched(const std::vector<unsigned>& seeds, const std::function<std::string(unsigned)>& run,
                                 size_t most = 20, const Limits& limits = {});

/// What is wrong with an error's text: it must be one line that a terminal can show, of at most some 2 000 bytes.
std::string wrong_with_line(const std::string& text);

}  // namespace weft::fuzz
