// run_processes: runs a part of a test on n ranks that are processes, for what threads cannot show: a killed rank, the store
// over TCP, memory shared between address spaces.
//
// The test program starts itself again for each rank with only the running test selected; there this call runs `body` and ends
// the process. In the test itself it returns how each rank ended. A label tells several calls in one test apart.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "weft/comm/world.h"

namespace weft::test {

struct ProcessOptions {
  std::string label = "ranks";
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  std::chrono::milliseconds meeting = std::chrono::seconds(30);  ///< what ranks have for finding each other
  std::vector<std::string> hosts = {};                           ///< a host name for each rank; empty: all on one
  bool rank_zero_serves = false;                                 ///< the store, as where no launcher does
};

struct ProcessResult {
  bool ended = false;  ///< false: it was killed at the deadline
  int signal = 0;      ///< that ended it, or 0
  std::string error;   ///< what the body threw, or empty
  std::string output;  ///< what the body returned
  std::chrono::milliseconds lifetime{0};
};

std::vector<ProcessResult> run_processes(int size, const std::function<std::string(World)>& body, ProcessOptions options = {});

}  // namespace weft::test
