// run_processes: runs a part of a test on n ranks that are processes, for cases that threads cannot show: a killed rank, the
// store over TCP, memory shared between address spaces.
//
// The test program restarts itself for each rank with only the running test selected; in a rank's process this call runs `body`
// and ends the process; in the test itself it returns how each rank ended. A label distinguishes several calls in one test.
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
  std::chrono::milliseconds meeting = std::chrono::seconds(30);  ///< time for ranks to find each other
  std::vector<std::string> hosts = {};                           ///< a host name per rank; empty: all on one host
  bool rank_zero_serves = false;                                 ///< rank 0 serves the store, as without a launcher
};

struct ProcessResult {
  bool ended = false;  ///< false: it was killed at the deadline
  int signal = 0;      ///< signal that ended the process, or 0
  std::string error;   ///< what the body threw, or empty
  std::string output;  ///< what the body returned
  std::chrono::milliseconds lifetime{0};
};

std::vector<ProcessResult> run_processes(int size, const std::function<std::string(World)>& body, ProcessOptions options = {});

}  // namespace weft::test
