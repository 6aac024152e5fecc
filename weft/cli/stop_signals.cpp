#include "weft/cli/stop_signals.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstring>

namespace weft {
namespace {

// A signal handler has nothing but what is global.
std::atomic<bool> stop_asked = false;
std::atomic<unsigned> deadline_in_s = 0;
char deadline_text[200] = {};  // what a rank says when it is over; empty: nothing

void on_stop_signal(int /*signal*/) {
  if (!stop_asked.exchange(true)) alarm(deadline_in_s);
}

/// Ends this process by the signal, as if nothing had been told.
void on_deadline(int signal) {
  if (write(STDERR_FILENO, deadline_text, std::strlen(deadline_text)) < 0) {
    // Nobody listens.
  }
  std::signal(signal, SIG_DFL);
  raise(signal);
}

}  // namespace

void note_stop_signals(double deadline_s, bool tells) {
  deadline_in_s = static_cast<unsigned>(std::ceil(deadline_s));
  if (tells) {
    const auto end = fmt::format_to_n(
        deadline_text, sizeof deadline_text - 1,
        "weft: not saved within save.deadline_s = {} s after the signal: ended as it is; allow more\n", deadline_s);
    *end.out = '\0';
  }
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  for (const int number : {SIGTERM, SIGUSR1}) sigaction(number, &action, nullptr);
  action.sa_handler = on_deadline;
  sigaction(SIGALRM, &action, nullptr);
}

bool stop_was_asked() { return stop_asked; }

}  // namespace weft
