#include "tests/support/run_processes.h"

#include <ATen/Parallel.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <thread>

#include "weft/base/loopback.h"
#include "weft/comm/store/store_server.h"

namespace weft::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr const char* kToken = "of the tests";

// In a rank's process: sends its outcome through the pipe as one letter and a text.
[[noreturn]] void run_body(const std::function<std::string(World)>& body, std::chrono::milliseconds timeout) {
  const int pipe = std::atoi(std::getenv("WEFT_TEST_PIPE"));
  std::string outcome;
  try {
    at::set_num_threads(1);
    outcome = body(World::from_environment(timeout));
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

struct Ports {
  int master = 0;
  int store = 0;  ///< 0: rank 0 serves it, at the master port
};

Child start(int rank, int size, const Ports& ports, const std::string& test, const ProcessOptions& options) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  std::vector<std::string> variables = {fmt::format("RANK={}", rank),
                                        fmt::format("WORLD_SIZE={}", size),
                                        "MASTER_ADDR=127.0.0.1",
                                        std::string("WEFT_TOKEN=") + kToken,
                                        fmt::format("MASTER_PORT={}", ports.master),
                                        "WEFT_TEST_LABEL=" + options.label,
                                        fmt::format("WEFT_TEST_PIPE={}", ends[1])};
  if (ports.store > 0) variables.push_back(fmt::format("WEFT_STORE=127.0.0.1:{}/{}", ports.store, ports.master));
  if (!options.hosts.empty()) variables.push_back("WEFT_HOST=" + options.hosts[rank]);
  // Everything is allocated before the fork: other threads of the test may hold the allocator's locks.
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
    if (options.label == label) run_body(body, options.meeting);
    return std::vector<ProcessResult>(size);
  }
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  const std::string test = std::string(info->test_suite_name()) + "." + info->name();
  FileDescriptor socket = listen_on_loopback();
  const Ports ports{free_loopback_port(), options.rank_zero_serves ? 0 : port_of(socket)};
  std::vector<Child> children;
  for (int rank = 0; rank < size; ++rank) children.push_back(start(rank, size, ports, test, options));
  std::optional<StoreServer> server;
  if (!options.rank_zero_serves) server.emplace(std::move(socket), kToken);

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
