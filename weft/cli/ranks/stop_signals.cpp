#include "weft/cli/ranks/stop_signals.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
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
#include <thread>
#include <utility>

#include "weft/base/last_words.h"
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
std::atomic<int64_t> words_ns = 0;        // when it was given
std::atomic<int> words_fd = -1;           // takes the signal that ends the process once last words are said

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

using EndText = std::array<char, 220>;

std::string_view end_text(int signal, EndText& line) {
  std::array<char, 160> buffer;
  const auto end =
      fmt::format_to_n(line.data(), line.size(), "ended by {}{}", signal_text(signal), unsaved_text(**run_board, buffer));
  return {line.data(), std::min(end.size, line.size())};
}

void end_at_once(int signal) {
  const int error = errno;
  const int64_t now = monotonic_ns();
  const int fd = words_fd.exchange(-1);
  if (fd < 0 && words_ns != 0 && now - words_ns < kSamePress_ns) return;  // `timeout`, mpirun and others send it twice
  words_ns = now;
  EndText line;
  if (!settings.is_rank && (fd >= 0 || !settings.has_words)) say(end_text(signal, line));
  if (fd < 0 || write(fd, &signal, sizeof(signal)) != sizeof(signal)) end_by(signal);
  errno = error;
}

/// Waits for the signal that ends the process; a thread, as a signal handler can neither wait nor allocate.
bool start_words() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;  // the process ends without them
  std::thread([from = ends[0]] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    int signal = 0;
    while (read(from, &signal, sizeof(signal)) < 0 && errno == EINTR) {
    }
    EndText line;
    say_last_words(settings.tells ? std::string(end_text(signal, line)) : "");
    std::signal(signal, SIG_DFL);
    kill(getpid(), signal);
  }).detach();
  words_fd = ends[1];
  return true;
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
  settings.has_words = settings.has_words && start_words();
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
