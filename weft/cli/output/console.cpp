#include "weft/cli/output/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>

#include "weft/base/environment.h"
#include "weft/base/error.h"
#include "weft/cli/output/output.h"

namespace weft {

namespace {

bool is_terminal() { return isatty(STDOUT_FILENO) != 0 && env_string("TERM").value_or("dumb") != "dumb"; }

/// Queried each time, because windows are resized.
int terminal_columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

Console::Console() : progress_({.terminal = is_terminal()}) {}

void Console::write(const std::string& text) {
  if (text.empty() || !failure_.empty()) return;
  try {
    write_out(text);
  } catch (const Error& error) {
    failure_ = error.what();
  }
}

void Console::line(const std::string& text) { write(text + "\n"); }

void Console::step(const StepReport& report) { write(progress_.step(report, now_s(), terminal_columns())); }

void Console::evaluation(const EvaluationReport& report) { write(progress_.evaluation(report, terminal_columns())); }

void Console::save(const SaveReport& report) { note(save_line(report)); }

void Console::note(const std::string& text) { write(progress_.line(text, terminal_columns())); }

void Console::finish(const FinalReport& report) { write(progress_.finish(report)); }

void Console::end_line() { write(progress_.end_line()); }

}  // namespace weft
