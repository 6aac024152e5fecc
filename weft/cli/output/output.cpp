#include "weft/cli/output/output.h"

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
  throw Error(fmt::format("cannot write to standard output: {}; the output is incomplete",
                          errno != 0 ? std::system_category().message(errno) : "writing failed"));
}

std::string wrapped(std::string line, size_t indent) {
  std::string result;
  while (line.size() > kColumns) {
    const size_t blank = line.find_last_of(' ', kColumns);
    if (blank == std::string::npos || line.find_first_not_of(' ', indent) >= blank) break;
    result += line.substr(0, line.find_last_not_of(' ', blank) + 1) + "\n";
    line = std::string(indent, ' ') + line.substr(blank + 1);
  }
  return result + line;
}

// Not SIG_IGN: exec resets a handler but keeps an ignored signal.
void survive(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  if (action.sa_handler != SIG_DFL) return;
  action.sa_handler = [](int) {};
  sigaction(signal, &action, nullptr);
}

}  // namespace weft
