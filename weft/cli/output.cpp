#include "weft/cli/output.h"

#include <fmt/format.h>
#include <signal.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "weft/base/error.h"

namespace weft {

void write_out(std::string_view text) {
  errno = 0;
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw Error(fmt::format("cannot write to standard output: {}; what it shows is not all there",
                          errno != 0 ? std::system_category().message(errno) : "writing failed"));
}

// Not SIG_IGN: a handler ends with exec.
void survive(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  if (action.sa_handler != SIG_DFL) return;
  action.sa_handler = [](int) {};
  sigaction(signal, &action, nullptr);
}

}  // namespace weft
