#include "weft/base/thread_stacks.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace weft::thread_stacks_test {
namespace {

std::atomic<int> ready;
std::atomic<bool> ends;

[[gnu::noinline]] void spins_here() {
  ++ready;
  while (!ends) {
  }
}

[[gnu::noinline]] void sleeps_here() {
  ++ready;
  while (!ends) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

void refuses_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  sleeps_here();
}

bool has(const std::vector<std::string>& names, const std::string& part) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return name.find(part) != std::string::npos; });
}

TEST(ThreadStacks, NamesWhatThreadsDo) {
  ready = 0;
  ends = false;
  std::thread spins(spins_here), sleeps(sleeps_here), refuses(refuses_signals);
  while (ready < 3) std::this_thread::yield();
  const auto start = std::chrono::steady_clock::now();
  const std::vector<ThreadStack> stacks = thread_stacks(std::chrono::milliseconds(2000));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
  int spinning = 0, sleeping = 0, silent = 0;
  for (const ThreadStack& stack : stacks) {
    EXPECT_NE(stack.id, ::gettid());
    const std::vector<std::string> names =
        function_names(stack.code, std::chrono::steady_clock::now() + std::chrono::seconds(10));
    const auto first =
        std::find_if(names.begin(), names.end(), [](const std::string& name) { return !is_of_the_system(name); });
    if (stack.code.empty()) ++silent;
    if (has(names, "spins_here")) {
      ++spinning;
      EXPECT_EQ(*first, "weft::thread_stacks_test::(anonymous namespace)::spins_here");
    }
    if (has(names, "sleeps_here")) {
      ++sleeping;
      EXPECT_EQ(*first, "weft::thread_stacks_test::(anonymous namespace)::sleeps_here");
    }
  }
  EXPECT_EQ(spinning, 1);
  EXPECT_EQ(sleeping, 1);
  EXPECT_EQ(silent, 1);
  ends = true;
  spins.join();
  sleeps.join();
  refuses.join();
}

TEST(FunctionNames, OfAnythingElseAreAddresses) {
  const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  EXPECT_EQ(function_names({1}, soon).front(), "0x1");
  EXPECT_TRUE(function_names({}, soon).empty());
}

}  // namespace
}  // namespace weft::thread_stacks_test
