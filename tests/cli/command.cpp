#include "tests/cli/command.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <sstream>
#include <thread>

#include "tests/support/wait_until.h"

namespace weft {

namespace {
/// Starts of variables that no library reads when it is loaded.
constexpr const char* kReadLater[] = {"WEFT_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "OUT"};
constexpr size_t kLongestRequest = 100'000;  ///< bytes; the fork server reads up to 2^17
}  // namespace

void redirect(const std::filesystem::path& path, int descriptor) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(fd, descriptor);
  close(fd);
}

namespace {

struct ForkServer {
  pid_t pid = -1;
  int fd = -1;
};

/// tests/cli/preload/fork_server.cpp, which starts when first asked for and ends with this thread, the tests' only one.
const ForkServer& fork_server() {
  static const ForkServer server = [] {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return ForkServer{};
    const pid_t tests = getpid();
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != tests) _exit(1);
      signal(SIGINT, SIG_DFL);
      setenv("WEFT_FORK_SERVER", std::to_string(dup(ends[1])).c_str(), 1);
      setenv("LD_PRELOAD", WEFT_FORK_SERVER, 1);
      execl(WEFT_COMMAND, WEFT_COMMAND, nullptr);
      _exit(127);
    }
    close(ends[1]);
    return ForkServer{pid, ends[0]};
  }();
  return server;
}

bool is_read_later(const std::string& variable) {
  return std::any_of(std::begin(kReadLater), std::end(kReadLater),
                     [&](const char* start) { return variable.rfind(start, 0) == 0; });
}

/// Starts the command in the fork server; returns -1 where it must be loaded anew.
pid_t fork_weft(const std::vector<std::string>& arguments, const std::filesystem::path& folder, const CommandOptions& options) {
  if (options.prepare) return -1;
  std::string request = std::filesystem::current_path().string();
  const auto add = [&](const std::string& text) { request.append(1, '\0').append(text); };
  add(folder / "out");
  add(folder / "err");
  add(std::to_string(arguments.size() + 1));
  add(WEFT_COMMAND);
  for (const std::string& argument : arguments) add(argument);
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    if (options.environment.count(text.substr(0, text.find('='))) == 0) add(text);
  }
  for (const auto& [name, value] : options.environment) {
    if (!is_read_later(name)) return -1;
    add(name + "=" + value);
  }
  request.push_back('\0');
  if (request.size() > kLongestRequest) return -1;
  pid_t pid = -1;
  const int fd = fork_server().fd;
  if (send(fd, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) return -1;
  return recv(fd, &pid, sizeof pid, 0) == sizeof pid ? pid : -1;
}

}  // namespace

pid_t start_weft(const std::vector<std::string>& arguments, const std::filesystem::path& folder,
                 const CommandOptions& options) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t forked = fork_weft(arguments, folder, options);
  if (forked > 0) return forked;
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
        while (waitpid(-1, nullptr, WNOHANG) > 0) {
        }
        for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
          if (!std::filesystem::exists(thread.path() / "children")) return false;  // a kernel without them cannot say
          std::istringstream children(read_text(thread.path() / "children"));
          for (pid_t child = 0; children >> child;) {
            if (child != fork_server().pid) return false;
          }
        }
        return true;
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
