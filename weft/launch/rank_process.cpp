#include "weft/launch/rank_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "weft/base/environment.h"
#include "weft/base/error.h"
#include "weft/base/launcher_variables.h"
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

/// What a shell or another parent ignored on the launcher's behalf (SIGINT and SIGQUIT behind `&`) a rank must hear again, or
/// it could only be killed. But nohup's ranks live on when the terminal goes.
void restore_dispositions() {
  for (int number = 1; number <= SIGRTMAX; ++number) {
    struct sigaction action {};
    if (number == SIGHUP || sigaction(number, nullptr, &action) != 0 || action.sa_handler != SIG_IGN) continue;
    action.sa_handler = SIG_DFL;
    sigaction(number, &action, nullptr);
  }
  // A rank is no foreground job; with `stty tostop` its output would stop it for good.
  signal(SIGTTOU, SIG_IGN);
}

/// Between fork and exec: only calls that are safe there.
[[noreturn]] void become_rank(const RankStart& start, const ChildArguments& child) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != child.launcher) _exit(1);  // it died before the line above
  if (start.guardian != nullptr) Guardian::note(start.guardian->pipe(), getpid());
  restore_dispositions();
  sigprocmask(SIG_SETMASK, &start.signal_mask, nullptr);
  if (start.standard_input >= 0) dup2(start.standard_input, STDIN_FILENO);
  if (start.standard_output >= 0) {
    dup2(start.standard_output, STDOUT_FILENO);
    dup2(start.standard_error >= 0 ? start.standard_error : start.standard_output, STDERR_FILENO);
  }
  for (const int fd : start.inherited) fcntl(fd, F_SETFD, 0);
  execvpe(child.argv[0], child.argv, child.envp);
  const int reason = errno;
  if (write(child.status_pipe, &reason, sizeof reason) < 0) _exit(126);
  _exit(127);
}

}  // namespace

StartedRank start_rank(const RankStart& start) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(fmt::format("cannot start a rank: {}", std::strerror(errno)));
  FileDescriptor status_read(ends[0]), status_write(ends[1]);
  fcntl(status_read.get(), F_SETFL, O_NONBLOCK);
  std::vector<char*> argv = pointers(start.command), envp = pointers(start.environment);
  const ChildArguments child{getpid(), status_write.get(), argv.data(), envp.data()};
  const pid_t pid = fork();
  if (pid < 0) throw Error(fmt::format("cannot start a rank: {}; fewer ranks (-n) may do", std::strerror(errno)));
  if (pid == 0) become_rank(start, child);
  setpgid(pid, pid);  // here too: the group must be there before it is sent anything
  return {pid, std::move(status_read)};
}

void throw_unless_run(const FileDescriptor& exec_pipe, const std::string& program) {
  int reason = 0;
  if (read(exec_pipe.get(), &reason, sizeof reason) == sizeof reason)
    throw InputError(fmt::format("cannot run '{}': {}", program, std::strerror(reason)));
}

std::vector<std::string> rank_environment(const RankVariables& variables) {
  std::vector<std::string> own = {fmt::format("RANK={}", variables.rank),
                                  fmt::format("WORLD_SIZE={}", variables.num_ranks),
                                  fmt::format("LOCAL_RANK={}", variables.local_rank),
                                  fmt::format("LOCAL_WORLD_SIZE={}", variables.num_local_ranks),
                                  fmt::format("MASTER_ADDR={}", variables.address),
                                  fmt::format("MASTER_PORT={}", variables.port)};
  if (!variables.store.empty()) own.push_back(fmt::format("WEFT_STORE={}/{}", variables.store, variables.port));
  if (!env_string("OMP_NUM_THREADS")) own.push_back(fmt::format("OMP_NUM_THREADS={}", variables.threads));
  std::vector<std::string> result;
  // What tells of another place, an outer launcher's or that of this host's, is not theirs.
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!is_launcher_variable(text.substr(0, text.find('=')), VariableScope::place)) result.emplace_back(text);
  }
  result.insert(result.end(), own.begin(), own.end());
  return result;
}

}  // namespace weft
