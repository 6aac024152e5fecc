#include "weft/launch/signal_watch.h"

#include <errno.h>
#include <fmt/core.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "weft/base/error.h"

namespace weft {

SignalWatch::SignalWatch() {
  sigset_t watched;
  sigemptyset(&watched);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&watched, signal);
  // A blocked signal is received even if ignored; but under nohup, a closed terminal must end nothing.
  struct sigaction hang_up {};
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) sigaddset(&watched, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &watched, &old_mask_);
  // An ignored SIGCHLD is inherited from the parent, and the kernel would then reap the ranks itself.
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &standard, &old_child_action_);
  fd_ = FileDescriptor(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (fd_.get() < 0) throw Error(fmt::format("cannot watch for signals: {}", strerror(errno)));
}

SignalWatch::~SignalWatch() {
  sigaction(SIGCHLD, &old_child_action_, nullptr);
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

std::vector<int> SignalWatch::receive() {
  std::vector<int> signals;
  signalfd_siginfo info{};
  while (read(fd_.get(), &info, sizeof info) == sizeof info) signals.push_back(static_cast<int>(info.ssi_signo));
  return signals;
}

const char* signal_text(int signal) {
  if (signal == SIGINT) return "Ctrl-C";
  return signal == SIGTERM ? "SIGTERM" : signal == SIGUSR1 ? "SIGUSR1" : "SIGHUP";
}

}  // namespace weft
