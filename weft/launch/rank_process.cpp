#include "weft/launch/rank_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "weft/base/error.h"
#include "weft/launch/guardian.h"

namespace weft {

namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (const std::string& string : strings) out.push_back(const_cast<char*>(string.c_str()));
  out.push_back(nullptr);
  return out;
}

struct ChildArguments {
  pid_t launcher;
  int status_pipe;
  char** argv;
  char** envp;
};

/// Between fork and exec: only calls that are safe there.
[[noreturn]] void become_rank(const RankStart& start, const ChildArguments& child) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != child.launcher) _exit(1);  // it died before the line above
  Guardian::note(start.guardian_pipe, getpid());
  // A rank is no foreground job; with `stty tostop` its output would stop it for good.
  signal(SIGTTOU, SIG_IGN);
  signal(SIGCHLD, SIG_DFL);
  sigprocmask(SIG_SETMASK, &start.signal_mask, nullptr);
  if (start.standard_input >= 0) dup2(start.standard_input, STDIN_FILENO);
  for (const int fd : start.inherited) fcntl(fd, F_SETFD, 0);
  execvpe(child.argv[0], child.argv, child.envp);
  const int reason = errno;
  if (write(child.status_pipe, &reason, sizeof reason) < 0) _exit(126);
  _exit(127);
}

/// 0 once the program runs (exec closed the pipe), else why it does not.
int exec_failure(int pipe) {
  int reason = 0;
  ssize_t got = 0;
  do {
    got = read(pipe, &reason, sizeof reason);
  } while (got < 0 && errno == EINTR);
  return got == sizeof reason ? reason : 0;
}

}  // namespace

pid_t start_rank(const RankStart& start) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(fmt::format("cannot start a rank: {}", std::strerror(errno)));
  FileDescriptor status_read(ends[0]), status_write(ends[1]);
  std::vector<char*> argv = pointers(start.command), envp = pointers(start.environment);
  const ChildArguments child{getpid(), status_write.get(), argv.data(), envp.data()};
  const pid_t pid = fork();
  if (pid < 0) throw Error(fmt::format("cannot start a rank: {}; fewer ranks (-n) may do", std::strerror(errno)));
  if (pid == 0) become_rank(start, child);
  status_write.close();
  if (const int reason = exec_failure(status_read.get()); reason != 0) {
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    throw InputError(fmt::format("cannot run '{}': {}", start.command[0], std::strerror(reason)));
  }
  return pid;
}

RendezvousPort open_rendezvous_port(bool keep_listening) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (socket.get() < 0 || bind(socket.get(), generic, length) != 0 || getsockname(socket.get(), generic, &length) != 0 ||
      (keep_listening && listen(socket.get(), SOMAXCONN) != 0)) {
    throw Error(fmt::format("cannot open a rendezvous port on 127.0.0.1: {}", std::strerror(errno)));
  }
  RendezvousPort port{.socket = {}, .port = ntohs(address.sin_port)};
  if (keep_listening) port.socket = std::move(socket);
  return port;
}

std::vector<std::string> rank_environment(const RankVariables& variables) {
  std::vector<std::string> own = {fmt::format("RANK={}", variables.rank),
                                  fmt::format("WORLD_SIZE={}", variables.num_ranks),
                                  fmt::format("LOCAL_RANK={}", variables.rank),
                                  fmt::format("LOCAL_WORLD_SIZE={}", variables.num_ranks),
                                  "MASTER_ADDR=127.0.0.1",
                                  fmt::format("MASTER_PORT={}", variables.port),
                                  fmt::format("WEFT_ERROR_FD={}", variables.error_fd)};
  if (variables.store_fd >= 0) own.push_back(fmt::format("WEFT_STORE_FD={}", variables.store_fd));
  if (std::getenv("OMP_NUM_THREADS") == nullptr) own.push_back(fmt::format("OMP_NUM_THREADS={}", variables.threads));
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string key = text.substr(0, text.find('=') + 1);
    const bool replaced = std::any_of(own.begin(), own.end(), [&](const auto& ours) { return ours.rfind(key, 0) == 0; });
    // An outer launcher's store is not the one of these ranks.
    const bool outer = key == "WEFT_STORE_FD=" || key.rfind("TORCHELASTIC_", 0) == 0;
    if (!replaced && !outer) result.push_back(text);
  }
  result.insert(result.end(), own.begin(), own.end());
  return result;
}

}  // namespace weft
