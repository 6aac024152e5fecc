#include "weft/cli/ranks/stop_signals.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>
#include <string_view>
#include <utility>

#include "weft/base/monotonic.h"
#include "weft/base/time_limit.h"
#include "weft/launch/signal_watch.h"
#include "weft/launch/unsaved_text.h"

namespace weft {
namespace {

// A signal handler can only use globals.
StopSignals settings;
const std::shared_ptr<const RunBoard>* run_board = nullptr;  // never freed: a signal may still come
unsigned alarm_s = 0;                                        // settings.deadline_s
std::string* deadline_text = nullptr;                        // printed when the deadline is over
std::atomic<bool> stop_asked = false;
std::atomic<bool> is_saved = false;       // the run is saved: the deadline no longer applies
std::atomic<int64_t> interrupted_ns = 0;  // time of the last Ctrl-C

/// Writes without stdio, which this thread may be inside of.
void say(std::string_view text) {
  if (!settings.prints) return;
  std::array<char, 400> line;
  const bool redraws = isatty(STDERR_FILENO) != 0;  // clears half a progress bar
  const auto end = fmt::format_to_n(line.data(), line.size(), "{}weft: {}\n", redraws ? "\r\x1b[K" : "", text);
  if (write(STDERR_FILENO, line.data(), std::min(end.size, line.size())) < 0) {
    // Nobody reads stderr.
  }
}

/// Ends the process as if the signal were not handled.
void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void end_at_once(int signal) {
  if (!settings.is_rank) {
    std::array<char, 160> buffer;
    std::array<char, 220> line;
    const auto end =
        fmt::format_to_n(line.data(), line.size(), "ended by {}{}", signal_text(signal), unsaved_text(**run_board, buffer));
    say({line.data(), std::min(end.size, line.size())});
  }
  end_by(signal);
}

void ask_to_stop() {
  if (!stop_asked.exchange(true) && !is_saved) alarm(alarm_s);
}

void on_stop_signal(int signal) {
  if (!settings.saves) return end_at_once(signal);
  const int error = errno;  // errno of the interrupted code
  if (signal == SIGINT) {
    const int64_t now = monotonic_ns(), before = interrupted_ns.exchange(now);
    if (before != 0 && now - before >= kSamePress_ns) return end_at_once(signal);
    if (before == 0 && !settings.is_rank) say(kSavingText);
  }
  ask_to_stop();
  errno = error;
}

void on_deadline(int signal) {
  say(*deadline_text);
  end_by(signal);
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void unblock_signals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

void note_stop_signals(const StopSignals& signals, std::shared_ptr<const RunBoard> board) {
  settings = signals;
  alarm_s = static_cast<unsigned>(std::chrono::ceil<std::chrono::seconds>(time_limit(signals.deadline_s)).count());
  run_board = new std::shared_ptr<const RunBoard>(std::move(board));
  deadline_text = new std::string(fmt::format(
      "ended without saving: more than save.deadline_s = {} s have passed since the signal; increase it", signals.deadline_s));
  struct sigaction action {};
  action.sa_handler = on_deadline;
  sigaction(SIGALRM, &action, nullptr);
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  for (const int number : {SIGTERM, SIGUSR1, SIGINT, SIGHUP}) sigaddset(&action.sa_mask, number);
  for (const int number : {SIGTERM, SIGUSR1}) sigaction(number, &action, nullptr);
  for (const int number : {SIGINT, SIGHUP}) {
    if (!is_ignored(number)) sigaction(number, &action, nullptr);  // ignored by `&` in a script, or nohup
  }
  if ((*run_board)->is_stopping()) ask_to_stop();
}

bool stop_was_asked() { return stop_asked; }

void end_stop_deadline() {
  is_saved = true;
  alarm(0);
}

}  // namespace weft
