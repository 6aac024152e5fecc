// Preloaded into the command by start_weft(): a process that has loaded LibTorch forks for each run of the command, which saves
// a quarter of a second per run. It wraps main(); the new process is a child of the tests, and has the request's arguments,
// environment, working folder and output files.
//
// A request, one message on descriptor WEFT_FORK_SERVER, is a list of texts that each end with a zero byte: working folder,
// output file, error file, number of arguments, arguments, environment. The answer is the process number, or -1.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace {

using Main = int (*)(int, char**, char**);
Main command = nullptr;

void redirect(const std::string& path, int descriptor) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(fd, descriptor);
  close(fd);
}

void answer(int fd, pid_t pid) {
  if (write(fd, &pid, sizeof pid) != sizeof pid) _exit(1);
}

/// Runs the command as `request` says, as a child of the tests.
int run(std::vector<std::string>& request) {
  if (chdir(request[0].c_str()) != 0) _exit(127);
  redirect(request[1], STDOUT_FILENO);
  redirect(request[2], STDERR_FILENO);
  const size_t environment = 4 + std::stoul(request[3]);
  std::vector<char*> arguments;
  for (size_t i = 4; i < environment; ++i) arguments.push_back(request[i].data());
  arguments.push_back(nullptr);
  clearenv();
  for (size_t i = environment; i < request.size(); ++i) putenv(request[i].data());
  return command(static_cast<int>(arguments.size()) - 1, arguments.data(), environ);
}

int serve(int, char**, char**) {
  const int fd = atoi(getenv("WEFT_FORK_SERVER"));
  const pid_t parent = getppid();
  std::vector<char> message(1 << 17);
  for (;;) {
    const ssize_t size = read(fd, message.data(), message.size());
    if (size <= 0) _exit(0);
    pid_t between = fork();
    if (between != 0) {
      if (between < 0) answer(fd, -1);
      if (between > 0) waitpid(between, nullptr, 0);
      continue;
    }
    between = getpid();
    const pid_t child = fork();
    if (child < 0) answer(fd, -1);
    if (child != 0) _exit(0);
    while (getppid() == between) usleep(50);  // until the tests are the parent
    if (getppid() != parent) _exit(1);        // they have ended
    answer(fd, getpid());
    close(fd);
    static std::vector<std::string> request;  // lives as long as the environment
    for (const char* text = message.data(); text < message.data() + size; text += strlen(text) + 1) request.emplace_back(text);
    return run(request);
  }
}

}  // namespace

extern "C" int __libc_start_main(Main main, int argc, char** argv, void (*init)(), void (*fini)(), void (*rtld_fini)(),
                                 void* stack_end) {
  using Start = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
  const auto start = reinterpret_cast<Start>(dlsym(RTLD_NEXT, "__libc_start_main"));
  command = main;
  return start(getenv("WEFT_FORK_SERVER") == nullptr ? main : serve, argc, argv, init, fini, rtld_fini, stack_end);
}
