#include "tests/fuzz/watched.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <ctime>
#include <fstream>
#include <stdexcept>

namespace weft::fuzz {
namespace {

constexpr size_t kLongestText = 4000;
constexpr size_t kLongestLine = 2200;

// Written by the child while it runs.
struct Shared {
  std::atomic<size_t> done = 0;     ///< finished cases
  std::atomic<double> cpu_s = 0.0;  ///< the child's CPU time at the start of the current case
  std::atomic<double> wall_s = 0.0;
  std::atomic<size_t> num_failures = 0;  ///< since the parent last read it; the child waits for that
  char text[kLongestText] = {};
};

double seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

int64_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

int64_t resident_bytes(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/statm", pid));
  int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

class Watch {
 public:
  Watch(const std::vector<unsigned>& seeds, const std::function<std::string(unsigned)>& run, const Limits& limits)
      : seeds_(seeds), run_(run), limits_(limits) {
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("mmap");
    shared_ = new (memory) Shared;
    snprintf(log_, sizeof(log_), "/tmp/weft_fuzz_XXXXXX");
    const int file = mkstemp(log_);
    if (file < 0) throw std::runtime_error("mkstemp");
    close(file);
  }
  ~Watch() {
    munmap(shared_, sizeof(Shared));
    unlink(log_);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  std::vector<Failure> all(size_t most) {
    while (shared_->done < seeds_.size() && failures_.size() < most) one_child();
    return failures_;
  }

 private:
  void one_child() {
    shared_->wall_s = seconds(CLOCK_MONOTONIC);
    shared_->cpu_s = 0.0;
    const pid_t pid = fork();
    if (pid < 0) throw std::runtime_error("fork");
    if (pid == 0) child();
    int status = 0;
    std::string cause;
    while (waitpid(pid, &status, WNOHANG) == 0) {
      cause = beyond(pid);
      if (!cause.empty()) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        break;
      }
      usleep(5000);
    }
    if (shared_->num_failures > 0) {
      fail(shared_->text);
      shared_->num_failures = 0;
      ++shared_->done;
      return;
    }
    if (cause.empty() && shared_->done == seeds_.size()) return;
    if (cause.empty() && WIFEXITED(status) && WEXITSTATUS(status) == 0) return;  // it ended to free memory
    fail(cause.empty() ? fmt::format("it ended with wait status {}: {}", status, log()) : cause);
    ++shared_->done;
  }

  std::string beyond(pid_t pid) const {
    clockid_t clock{};
    if (clock_getcpuclockid(pid, &clock) == 0 && seconds(clock) - shared_->cpu_s > limits_.cpu_s) {
      return fmt::format("it computes for more than {} s", limits_.cpu_s);
    }
    if (seconds(CLOCK_MONOTONIC) - shared_->wall_s > limits_.wall_s) return fmt::format("it waits for {} s", limits_.wall_s);
    if (resident_bytes(pid) > limits_.bytes) return fmt::format("it takes more than {} bytes", limits_.bytes);
    return {};
  }

  // Exits with status 1 after a failure, and with 0 when all is done or memory has grown over many cases.
  [[noreturn]] void child() {
    const int file = open(log_, O_WRONLY | O_TRUNC);
    dup2(file, STDERR_FILENO);
    const int64_t before = peak_bytes();
    for (size_t i = shared_->done; i < seeds_.size(); ++i) {
      shared_->wall_s = seconds(CLOCK_MONOTONIC);
      shared_->cpu_s = seconds(CLOCK_PROCESS_CPUTIME_ID);
      std::string what = run_(seeds_[i]);
      const int64_t peak = peak_bytes();
      if (what.empty() && peak > limits_.bytes) what = fmt::format("memory has grown to {} bytes", peak);
      if (!what.empty()) {
        snprintf(shared_->text, kLongestText, "%s", what.c_str());
        shared_->num_failures = 1;
        _exit(1);
      }
      ++shared_->done;
      if (peak - before > limits_.bytes / 2) _exit(0);
    }
    _exit(0);
  }

  void fail(const std::string& what) { failures_.push_back({seeds_[shared_->done], what}); }

  // The beginning of a sanitizer's report is enough.
  std::string log() const {
    std::ifstream file(log_);
    std::string text(1500, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(file.gcount()));
    return text;
  }

  const std::vector<unsigned>& seeds_;
  const std::function<std::string(unsigned)>& run_;
  Limits limits_;
  Shared* shared_ = nullptr;
  char log_[64] = {};
  std::vector<Failure> failures_;
};

// Bytes of the character at `at`; 0 if it is not a valid one.
size_t character(const std::string& text, size_t at) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned first = byte(at);
  const size_t length = first < 0x80                    ? 1
                        : first >= 0xc2 && first < 0xe0 ? 2
                        : (first >> 4) == 0xe           ? 3
                        : first >= 0xf0 && first < 0xf5 ? 4
                                                        : 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  }
  const bool surrogate = first == 0xed && byte(at + 1) >= 0xa0;
  const bool control = first < 0x20 || first == 0x7f || (first == 0xc2 && byte(at + 1) < 0xa0);
  return surrogate || control ? 0 : length;
}

}  // namespace

std::vector<Failure> run_watched(const std::vector<unsigned>& seeds, const std::function<std::string(unsigned)>& run,
                                 size_t most, const Limits& limits) {
  return Watch(seeds, run, limits).all(most);
}

std::string line_problem(const std::string& text) {
  if (text.empty()) return "an empty line";
  if (text.size() > kLongestLine) return fmt::format("{} bytes: {:.200}", text.size(), text);
  for (size_t at = 0; at < text.size();) {
    const size_t length = character(text, at);
    if (length == 0)
      return fmt::format("byte {} at {} is not printable, in: {}", static_cast<unsigned char>(text[at]), at, text);
    at += length;
  }
  for (const char* word : {"std::", "bad_alloc", "basic_string", "vector::", "Exception raised from"}) {
    if (text.find(word) != std::string::npos) return fmt::format("not a user's word, '{}': {}", word, text);
  }
  return {};
}

}  // namespace weft::fuzz
