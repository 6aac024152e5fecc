#include "tests/support/run_processes.h"

#include <ATen/Parallel.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>

namespace weft::test {
namespace {

using Clock = std::chrono::steady_clock;

struct Listener {
  int fd = -1;
  int port = 0;
};

Listener listen_on_loopback() {
  Listener result{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), 0};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (result.fd < 0 || ::bind(result.fd, reinterpret_cast<sockaddr*>(&address), length) != 0 || ::listen(result.fd, 64) != 0 ||
      ::getsockname(result.fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw std::runtime_error("cannot listen on the loopback interface");
  }
  result.port = ntohs(address.sin_port);
  return result;
}

// In a rank's process: its outcome goes through the pipe as one letter and a text.
[[noreturn]] void run_body(const std::function<std::string(World)>& body) {
  const int pipe = std::atoi(std::getenv("WEFT_TEST_PIPE"));
  std::string outcome;
  try {
    at::set_num_threads(1);
    outcome = body(World::from_environment(std::chrono::seconds(30)));
    outcome.insert(outcome.begin(), 'o');
  } catch (const std::exception& error) {
    outcome.assign(1, 'e').append(error.what());
  }
  (void)!::write(pipe, outcome.data(), outcome.size());
  ::_exit(outcome[0] == 'e' ? 1 : 0);
}

struct Child {
  pid_t pid = -1;
  int pipe = -1;
};

Child start(int rank, int size, const Listener& store, const std::string& test, const ProcessOptions& options) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  std::vector<std::string> variables = {fmt::format("RANK={}", rank),
                                        fmt::format("WORLD_SIZE={}", size),
                                        "MASTER_ADDR=127.0.0.1",
                                        fmt::format("MASTER_PORT={}", store.port),
                                        "WEFT_TEST_LABEL=" + options.label,
                                        fmt::format("WEFT_TEST_PIPE={}", ends[1])};
  if (rank == 0) variables.push_back(fmt::format("WEFT_STORE_FD={}", store.fd));
  if (!options.hosts.empty()) variables.push_back("WEFT_HOST=" + options.hosts[rank]);
  // All is made before the fork: other threads of the test may hold the allocator's locks.
  std::vector<char*> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.push_back(*entry);
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  std::string program = "/proc/self/exe", filter = "--gtest_filter=" + test;
  char* arguments[] = {program.data(), filter.data(), nullptr};

  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("cannot fork");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::fcntl(ends[1], F_SETFD, 0);
    if (rank == 0) ::fcntl(store.fd, F_SETFD, 0);
    const int null = ::open("/dev/null", O_WRONLY);
    ::dup2(null, STDOUT_FILENO);
    ::execve(program.c_str(), arguments, environment.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  return {pid, ends[0]};
}

void collect(const Child& child, ProcessResult& result) {
  std::string outcome;
  char buffer[4096];
  for (ssize_t count = 0; (count = ::read(child.pipe, buffer, sizeof(buffer))) > 0;) outcome.append(buffer, count);
  ::close(child.pipe);
  if (!outcome.empty()) (outcome[0] == 'e' ? result.error : result.output).assign(outcome, 1);
}

}  // namespace

std::vector<ProcessResult> run_processes(int size, const std::function<std::string(World)>& body, ProcessOptions options) {
  if (const char* label = std::getenv("WEFT_TEST_LABEL")) {
    if (options.label == label) run_body(body);
    return std::vector<ProcessResult>(size);
  }
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  const std::string test = std::string(info->test_suite_name()) + "." + info->name();
  const Listener store = listen_on_loopback();
  std::vector<Child> children;
  for (int rank = 0; rank < size; ++rank) children.push_back(start(rank, size, store, test, options));
  ::close(store.fd);

  const auto begin = Clock::now();
  std::vector<ProcessResult> results(size);
  for (int running = size; running > 0; std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
    const bool late = Clock::now() - begin > options.timeout;
    for (int rank = 0; rank < size; ++rank) {
      if (children[rank].pid < 0) continue;
      int status = 0;
      if (late) ::kill(children[rank].pid, SIGKILL);
      if (::waitpid(children[rank].pid, &status, late ? 0 : WNOHANG) == 0) continue;
      results[rank].ended = !late;
      results[rank].signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      results[rank].lifetime = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
      collect(children[rank], results[rank]);
      children[rank].pid = -1;
      --running;
    }
  }
  return results;
}

}  // namespace weft::test
