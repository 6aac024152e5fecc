// Runs many cases in a watched child process: a crash, or a case that takes too much time or memory, ends the child, is noted,
// and the next case runs in a new child.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace weft::fuzz {

struct Limits {
  double cpu_s = 20.0;    ///< per case
  double wall_s = 240.0;  ///< per case that waits; generous, for busy machines
  int64_t bytes = int64_t{2} << 30;
};

struct Failure {
  unsigned seed = 0;
  std::string what;
};

/// `run` returns what is wrong, in a line, or an empty string. Called in children, once per seed; stops after `most` failures.
std::vector<Failure> run_watched(const std::vector<unsigned>& seeds, const std::function<std::string(unsigned)>& run,
                                 size_t most = 20, const Limits& limits = {});

/// Returns what is wrong with an error's text: it must be one line that a terminal can show, of at most about 2 000 bytes.
std::string line_problem(const std::string& text);

}  // namespace weft::fuzz
