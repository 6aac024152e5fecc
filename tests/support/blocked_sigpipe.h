// Which threads a peer's closed connection cannot end, together with their process.
#pragma once

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

namespace weft::test {

/// Counts this process's threads that block SIGPIPE.
inline int num_blocking_sigpipe() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("SigBlk:")) continue;
      count += (std::stoull(line.substr(7), nullptr, 16) >> (SIGPIPE - 1)) & 1U;
    }
  }
  return count;
}

}  // namespace weft::test
