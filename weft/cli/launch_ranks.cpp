#include "weft/cli/launch_ranks.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "weft/base/environment.h"
#include "weft/base/printable.h"
#include "weft/base/token.h"
#include "weft/comm/store/store_server.h"

namespace weft {

namespace {

void tell(const std::string& line) {
  if (line.empty()) return;
  // A rank that was ended may have left half a progress bar.
  if (isatty(STDERR_FILENO) != 0) std::fputs("\r\x1b[K", stderr);
  std::fprintf(stderr, "weft: %s\n", shortened(line, 2000).c_str());
}

/// A store that only the ranks reach: they share a token, of the environment or made for them, in their environment.
void serve_store(LaunchOptions& options) {
  std::string token = env_string("WEFT_TOKEN").value_or("");
  if (token.empty()) {
    ::unsetenv("WEFT_TOKEN");  // an empty one would come before ours
    token = make_token();
    options.environment.push_back("WEFT_TOKEN=" + token);
  }
  options.serve = [token](FileDescriptor socket) { return std::make_shared<StoreServer>(std::move(socket), token); };
}

}  // namespace

int launch_ranks(LaunchOptions options) {
  serve_store(options);
  std::string error;
  const int status = launch(options, error);
  tell(error);
  return status;
}

int launch_ranks_again(LaunchOptions options, RestartOptions restarts) {
  serve_store(options);
  restarts.tell = tell;
  const LaunchOutcome outcome = launch_again(std::move(options), restarts);
  tell(outcome.error);
  return outcome.status;
}

}  // namespace weft
