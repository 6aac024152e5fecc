#include "weft/cli/stop_signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cmath>

namespace weft {
namespace {

// A signal handler has nothing but what is global.
std::atomic<bool> stop_asked = false;
std::atomic<unsigned> deadline_in_s = 0;

void on_stop_signal(int /*signal*/) {
  if (!stop_asked.exchange(true)) alarm(deadline_in_s);
}

}  // namespace

void note_stop_signals(double deadline_s) {
  deadline_in_s = static_cast<unsigned>(std::ceil(deadline_s));
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  for (const int number : {SIGTERM, SIGUSR1}) sigaction(number, &action, nullptr);
}

bool stop_was_asked() { return stop_asked; }

}  // namespace weft
