// Runs work in a process with a CPU time limit, chosen so that linear work passes on any machine and superlinear work on none.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <functional>

namespace weft::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr rlim_t kSlowness = 20;  ///< slowdown of an instrumented program
#else
constexpr rlim_t kSlowness = 1;
#endif

inline bool runs_within(rlim_t cpu_s, const std::function<void()>& work) {
  cpu_s *= kSlowness;
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit limit = {cpu_s, cpu_s};
    setrlimit(RLIMIT_CPU, &limit);
    try {
      work();
    } catch (const std::exception&) {
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace weft::test
