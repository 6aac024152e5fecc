#include "tests/cli/command.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>
#include <thread>

#include "tests/support/wait_until.h"

namespace weft {

void redirect(const std::filesystem::path& path, int descriptor) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(fd, descriptor);
  close(fd);
}

pid_t start_weft(const std::vector<std::string>& arguments, const std::filesystem::path& folder,
                 const CommandOptions& options) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  signal(SIGINT, SIG_DFL);  // ignored if a script started these tests with &
  redirect(folder / "out", STDOUT_FILENO);
  redirect(folder / "err", STDERR_FILENO);
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  if (options.prepare) options.prepare();
  std::vector<char*> argv = {const_cast<char*>(WEFT_COMMAND)};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  _exit(127);
}

std::string free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  bind(fd, reinterpret_cast<sockaddr*>(&address), length);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  close(fd);
  return std::to_string(ntohs(address.sin_port));
}

pid_t start_rank(const std::vector<std::string>& arguments, const std::filesystem::path& folder, int rank, int size,
                 const std::string& port) {
  return start_weft(arguments, folder,
                    {.environment = {{"RANK", std::to_string(rank)},
                                     {"WORLD_SIZE", std::to_string(size)},
                                     {"LOCAL_RANK", std::to_string(rank)},
                                     {"LOCAL_WORLD_SIZE", std::to_string(size)},
                                     {"MASTER_ADDR", "127.0.0.1"},
                                     {"MASTER_PORT", port}},
                     .prepare = [&] {
                       if (chdir(folder.c_str()) != 0) _exit(127);
                     }});
}

int wait_for(pid_t pid, double deadline_s) {
  int status = 0;
  if (!wait_until([&] { return waitpid(pid, &status, WNOHANG) == pid; }, deadline_s)) {
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

CommandResult run_weft(const std::vector<std::string>& arguments, const CommandOptions& options) {
  const TemporaryFolder folder;
  const auto start = std::chrono::steady_clock::now();
  CommandResult result;
  result.status = wait_for(start_weft(arguments, folder.path(), options), options.deadline_s);
  result.seconds = seconds_since(start);
  result.out = read_text(folder / "out");
  result.err = read_text(folder / "err");
  return result;
}

bool processes_left() {
  return !wait_until(
      [] {
        pid_t got = 0;
        while ((got = waitpid(-1, nullptr, WNOHANG)) > 0) {
        }
        return got < 0 && errno == ECHILD;
      },
      1.0);
}

std::string unwrapped(const std::string& text) { return std::regex_replace(text, std::regex("\n +"), " "); }

std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "weft_cli_XXXXXX").string();
  path_ = mkdtemp(name.data());
}

TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path_); }

}  // namespace weft
