#include "weft/base/thread_stacks.h"

#include <execinfo.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "weft/base/parse_number.h"

namespace weft {
namespace {

constexpr int kSignal = SIGURG;
constexpr int kMostFunctions = 64;
/// In a handler: the handler, and what the kernel returns through.
constexpr int kOfHandler = 2;

// What a handler writes to: it can be given nothing. -1: no thread is asked.
struct Answer {
  std::atomic<int> asked = -1;
  std::atomic<int> count = -1;
  std::array<void*, kMostFunctions + kOfHandler> code = {};
};
Answer answer;
bool is_lost = false;  ///< a handler has taken a request, and not answered: it may still write

int own_id() { return static_cast<int>(::syscall(SYS_gettid)); }

void write_stack(int /*signal*/) {
  const int error = errno;
  int own = own_id();
  if (answer.asked.compare_exchange_strong(own, -1)) {
    answer.count.store(::backtrace(answer.code.data(), static_cast<int>(answer.code.size())), std::memory_order_release);
  }
  errno = error;
}

// Returns the addresses, or nothing if the thread does not answer. A return address is the instruction after the call.
std::vector<uintptr_t> stack_of(int thread, std::chrono::steady_clock::time_point deadline) {
  answer.count.store(-1);
  answer.asked.store(thread);
  const bool is_sent = ::syscall(SYS_tgkill, ::getpid(), thread, kSignal) == 0;
  while (is_sent && answer.count.load(std::memory_order_acquire) < 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  int asked = thread;
  if (!answer.asked.compare_exchange_strong(asked, -1)) {  // it is writing, or has written
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
    while (answer.count.load(std::memory_order_acquire) < 0 && !is_lost) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      is_lost = std::chrono::steady_clock::now() >= end;
    }
  }
  std::vector<uintptr_t> code;
  for (int i = kOfHandler; i < answer.count.load(std::memory_order_acquire); ++i) {
    code.push_back(reinterpret_cast<uintptr_t>(answer.code[static_cast<size_t>(i)]) - (i > kOfHandler ? 1 : 0));
  }
  return code;
}

}  // namespace

std::vector<ThreadStack> thread_stacks(std::chrono::milliseconds limit) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  void* first = nullptr;
  ::backtrace(&first, 1);  // loads the unwinder: a handler cannot
  struct sigaction action = {}, before = {};
  action.sa_handler = write_stack;
  action.sa_flags = SA_RESTART;
  ::sigaction(kSignal, &action, &before);
  const auto end = std::chrono::steady_clock::now() + limit;
  std::vector<ThreadStack> stacks;
  std::error_code error;
  std::vector<std::filesystem::path> tasks;
  for (std::filesystem::directory_iterator task("/proc/self/task", error), none; !error && task != none;
       task.increment(error)) {
    tasks.push_back(task->path());
  }
  for (const std::filesystem::path& task : tasks) {
    ThreadStack stack{.id = parse_number<int>(task.filename().string()).value_or(0)};
    if (stack.id == 0 || stack.id == own_id()) continue;
    std::ifstream in(task / "comm");
    std::getline(in, stack.name);
    const auto slice = std::chrono::steady_clock::now() + std::min(limit / 4, std::chrono::milliseconds(100));
    if (!is_lost) stack.code = stack_of(stack.id, std::min(end, slice));
    stacks.push_back(std::move(stack));
  }
  ::sigaction(kSignal, &before, nullptr);
  std::sort(stacks.begin(), stacks.end(), [](const ThreadStack& a, const ThreadStack& b) { return a.id < b.id; });
  return stacks;
}

}  // namespace weft
