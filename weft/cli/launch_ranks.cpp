#include "weft/cli/launch_ranks.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "weft/base/printable.h"
#include "weft/comm/store/store_server.h"

namespace weft {

int launch_ranks(LaunchOptions options) {
  options.serve = [](FileDescriptor socket) { return std::make_shared<StoreServer>(std::move(socket)); };
  std::string error;
  const int status = launch(options, error);
  // A rank that was ended may have left half a progress bar.
  if (status != 0 && isatty(STDERR_FILENO) != 0) std::fputs("\r\x1b[K", stderr);
  if (!error.empty()) std::fprintf(stderr, "weft: %s\n", shortened(error, 2000).c_str());
  return status;
}

}  // namespace weft
