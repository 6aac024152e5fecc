#include "weft/cli/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "weft/base/environment.h"

namespace weft {

namespace {

bool is_terminal() { return isatty(STDOUT_FILENO) != 0 && env_string("TERM").value_or("dumb") != "dumb"; }

/// Asked each time: windows are resized.
int terminal_columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// In one piece, at once: a log that is watched should not lag behind.
void write_out(const std::string& text) {
  if (text.empty()) return;
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

Console::Console() : progress_({.terminal = is_terminal()}) {}

void Console::line(const std::string& text) const { write_out(text + "\n"); }

void Console::step(const StepReport& report) { write_out(progress_.step(report, now_s(), terminal_columns())); }

void Console::evaluation(const EvaluationReport& report) { write_out(progress_.evaluation(report, terminal_columns())); }

void Console::finish(const FinalReport& report) { write_out(progress_.finish(report)); }

void Console::end_line() { write_out(progress_.end_line()); }

}  // namespace weft
