#include "weft/cli/launch_ranks.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "weft/base/printable.h"
#include "weft/comm/store/store_server.h"

namespace weft {

namespace {

void tell(const std::string& line) {
  if (line.empty()) return;
  // A rank that was ended may have left half a progress bar.
  if (isatty(STDERR_FILENO) != 0) std::fputs("\r\x1b[K", stderr);
  std::fprintf(stderr, "weft: %s\n", shortened(line, 2000).c_str());
}

std::shared_ptr<void> serve_store(FileDescriptor socket) { return std::make_shared<StoreServer>(std::move(socket)); }

}  // namespace

int launch_ranks(LaunchOptions options) {
  options.serve = serve_store;
  std::string error;
  const int status = launch(options, error);
  tell(error);
  return status;
}

int launch_ranks_again(LaunchOptions options, RestartOptions restarts) {
  options.serve = serve_store;
  restarts.tell = tell;
  const LaunchOutcome outcome = launch_again(std::move(options), restarts);
  tell(outcome.error);
  return outcome.status;
}

}  // namespace weft
