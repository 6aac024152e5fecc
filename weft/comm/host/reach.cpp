#include "weft/comm/host/reach.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "weft/base/connect.h"
#include "weft/base/error.h"

namespace weft {

FileDescriptor reach(const std::string& host, int port, const Deadline& deadline) {
  for (auto pause = std::chrono::milliseconds(2);; pause = std::min(pause * 2, std::chrono::milliseconds(100))) {
    try {
      return connect_to(host, port, deadline);
    } catch (const Error&) {
      if (deadline.passed()) throw;
    }
    std::this_thread::sleep_for(std::min(pause, deadline.left()));
  }
}

void wait_until_reachable(const std::string& host, int port, const Deadline& deadline) { reach(host, port, deadline); }

}  // namespace weft
