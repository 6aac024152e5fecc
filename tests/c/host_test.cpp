// What a host program has of its own stays as it is: floating-point modes, traps, signal handlers, OpenMP; its threads and the
// processes that it forks.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft.h>

#include <atomic>
#include <cfenv>
#include <csignal>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/c/made.h"

namespace weft::c_host_test {
namespace {

using c_test::Array;
using c_test::kRecipe;
using c_test::Made;

struct Batch {
  Array<double> input{{4, 1, 4, 4}};  // which is converted
  Array<int64_t> target{{4}};
  Batch() {
    for (size_t i = 0; i < input.memory.size(); ++i) input.memory[i] = 1.0 / static_cast<double>(i + 3);
  }
};

/// Losses of this many steps.
std::vector<double> losses(const Made& made, int steps) {
  const Batch batch;
  std::vector<double> all;
  for (int i = 0; i < steps; ++i) {
    weft_step step;
    EXPECT_EQ(weft_trainer_step(made.trainer, &batch.input, 1, &batch.target, &step), WEFT_OK) << weft_last_error();
    all.push_back(step.loss);
  }
  return all;
}
std::vector<double> losses(int steps) { return losses(Made(), steps); }

TEST(Host, FloatingPointModesAndTraps) {
  const std::vector<double> expected = losses(3);
  const std::function<void()> modes[] = {
    [] { std::fesetround(FE_UPWARD); },
    [] { std::fesetround(FE_TOWARDZERO); },
#if defined(__x86_64__)
    [] { __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040); },  // denormals are 0
#endif
    [] { feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW); }
  };
  for (const auto& set : modes) {
    SCOPED_TRACE(&set - modes);
    std::fenv_t before = {};
    std::fegetenv(&before);
    set();
    struct Mode {
      int rounding = std::fegetround(), traps = fegetexcept();
#if defined(__x86_64__)
      unsigned bits = __builtin_ia32_stmxcsr() & ~0x3fU;  // without what has happened
#endif
      bool operator==(const Mode&) const = default;
    };
    const Mode mode;
    std::vector<Mode> seen;
    const auto log = [](void* context, const char*) { static_cast<std::vector<Mode>*>(context)->emplace_back(); };
    const auto visit = [](void* context, const char*, const weft_array*) {
      static_cast<std::vector<Mode>*>(context)->emplace_back();
    };
    std::vector<double> found;
    {
      const Made made((std::string(kRecipe) + "save = { folder = \"/none\" }\n").c_str(), log, &seen);
      found = losses(made, 3);
      EXPECT_EQ(weft_trainer_visit_weights(made.trainer, visit, &seen), WEFT_OK) << weft_last_error();
      Batch batch;
      batch.input.memory[0] = 1e300;  // an overflow
      EXPECT_EQ(weft_trainer_step(made.trainer, &batch.input, 1, &batch.target, nullptr), WEFT_NUMERIC_ERROR)
          << weft_last_error();
    }
    const Mode after;
    std::fesetenv(&before);
    EXPECT_EQ(found, expected);
    EXPECT_TRUE(after == mode);
    EXPECT_GT(seen.size(), 2U);
    for (const Mode& in_callback : seen) EXPECT_TRUE(in_callback == mode);
  }
}

TEST(Host, Signals) {
  struct Handlers {
    Handlers() {
      for (int i = 1; i < 32; ++i) sigaction(i, nullptr, &actions[i]);
      pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    }
    struct sigaction actions[32] = {};
    sigset_t blocked = {};
  };
  const auto ours = [](int) {};
  const int kinds[] = {SIGTERM, SIGINT, SIGPIPE, SIGCHLD, SIGUSR1, SIGUSR2, SIGHUP, SIGALRM, SIGFPE};
  for (const int kind : kinds) std::signal(kind, ours);
  const Handlers before;
  losses(2);
  const Handlers after;
  for (int i = 1; i < 32; ++i) {
    EXPECT_EQ(before.actions[i].sa_handler, after.actions[i].sa_handler) << i;
    EXPECT_EQ(sigismember(&before.blocked, i), sigismember(&after.blocked, i)) << i;
  }
  for (const int kind : kinds) std::signal(kind, SIG_DFL);
}

/// A function of the OpenMP library that LibTorch brings, which a host program compiled with it shares.
template <class Function>
Function* of_openmp(const char* name) {
  auto* const found = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  EXPECT_NE(found, nullptr) << name;
  return found;
}

TEST(HostOpenMp, SettingsAndRegions) {
  auto* const set = of_openmp<void(int)>("omp_set_num_threads");
  auto* const get = of_openmp<int()>("omp_get_max_threads");
  auto* const parallel = of_openmp<void(void (*)(void*), void*, unsigned, unsigned)>("GOMP_parallel");
  const std::vector<double> expected = losses(3);
  const int before = get();
  set(3);
  EXPECT_EQ(losses(3), expected);
  EXPECT_EQ(get(), 3);
  set(before);
  struct Region {
    const std::vector<double>& expected;
    std::atomic<int> same = 0;
  } region{expected};
  parallel(
      [](void* data) {
        auto& of = *static_cast<Region*>(data);
        of.same += losses(3) == of.expected ? 1 : 0;
      },
      &region, 3, 0);
  EXPECT_EQ(region.same, 3);
}

/// Two threads of LibTorch's pool, which the program shares, compute; each step is above the size that they divide.
constexpr const char* kTwoThreads = R"(
model = { name = "mlp", layers = 1, width = 256, image_size = 16, classes = 3 }
batch = { global = 256 }
optimizer = { name = "sgd", lr = 0.1 }
run = { steps = 100, threads = 2 }
)";

std::vector<double> losses_of_two_threads(std::function<void()> in_callback) {
  const Made made(kTwoThreads);
  Array<float> input{{256, 1, 16, 16}};
  const Array<int64_t> target{{256}};
  for (size_t i = 0; i < input.memory.size(); ++i) input.memory[i] = 1.0F / static_cast<float>(i % 97 + 3);
  std::vector<double> all;
  for (int i = 0; i < 4; ++i) {
    weft_step step;
    EXPECT_EQ(weft_trainer_step(made.trainer, &input, 1, &target, &step), WEFT_OK) << weft_last_error();
    all.push_back(step.loss);
  }
  const auto visit = [](void* context, const char*, const weft_array*) { (*static_cast<std::function<void()>*>(context))(); };
  EXPECT_EQ(weft_trainer_visit_weights(made.trainer, visit, &in_callback), WEFT_OK) << weft_last_error();
  return all;
}

TEST(HostOpenMp, FloatingPointModesOfItsThreads) {
  auto* const parallel = of_openmp<void(void (*)(void*), void*, unsigned, unsigned)>("GOMP_parallel");
  const auto region = [&](std::function<void()> each) {
    parallel([](void* call) { (*static_cast<std::function<void()>*>(call))(); }, &each, 2, 0);
  };
  const std::vector<double> expected = losses_of_two_threads([] {});
  region([] { std::fesetround(FE_UPWARD); });
  std::atomic<int> upward = 0;
  const auto count = [&] { region([&] { upward += std::fegetround() == FE_UPWARD ? 1 : 0; }); };
  const std::vector<double> found = losses_of_two_threads(count);
  const int in_callbacks = upward.exchange(0);
  count();
  region([] { std::fesetround(FE_TONEAREST); });
  EXPECT_EQ(found, expected);
  EXPECT_EQ(in_callbacks, 2 * 4);
  EXPECT_EQ(upward, 2);
}

TEST(Host, ThreadsHaveTheirOwnTexts) {
  EXPECT_EQ(weft_world_place(nullptr, nullptr, nullptr), WEFT_INPUT_ERROR);
  std::thread([] {
    EXPECT_STREQ(weft_last_error(), "");
    weft_trainer_share(nullptr, nullptr, nullptr);
    EXPECT_STREQ(weft_last_error(), "weft_trainer_share: trainer is null");
  }).join();
  EXPECT_STREQ(weft_last_error(), "weft_world_place: world is null");
}

TEST(Host, OneTrainerOfSeveralThreads) {
  const Made made;
  std::atomic<int> steps = 0, refused = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const Batch batch;
      for (int j = 0; j < 25; ++j) {
        const int status = weft_trainer_step(made.trainer, &batch.input, 1, &batch.target, nullptr);
        const bool is_refusal =
            status == WEFT_INPUT_ERROR && std::strstr(weft_last_error(), "another call is using this trainer");
        EXPECT_TRUE(status == WEFT_OK || is_refusal) << weft_last_error();
        ++(status == WEFT_OK ? steps : refused);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Batch batch;
  weft_step last;
  ASSERT_EQ(weft_trainer_step(made.trainer, &batch.input, 1, &batch.target, &last), WEFT_OK) << weft_last_error();
  EXPECT_EQ(last.step, steps + 1);
}

TEST(Host, TrainersOfSeveralThreads) {
  constexpr int kThreads = 4, kSteps = 10;
  const std::vector<double> expected = losses(kSteps + 1);
  std::vector<std::vector<double>> found(kThreads);
  std::vector<std::unique_ptr<Made>> made(kThreads);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&made, &found, i] {
      made[i] = std::make_unique<Made>();
      found[i] = losses(*made[i], kSteps);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < kThreads; ++i) {  // after the thread that made it
    found[i].push_back(losses(*made[i], 1)[0]);
    EXPECT_EQ(found[i], expected);
  }
}

TEST(Host, FreesWhileAThreadSteps) {
  for (int i = 0; i < 5; ++i) {
    Made made;
    std::atomic<bool> begun = false;
    std::thread thread([&] {
      const Batch batch;
      int status = WEFT_OK;
      while (status == WEFT_OK) {
        status = weft_trainer_step(made.trainer, &batch.input, 1, &batch.target, nullptr);
        begun = true;
      }
      EXPECT_EQ(status, WEFT_INPUT_ERROR);
      EXPECT_STREQ(weft_last_error(), "weft_trainer_step: not a trainer, or one that was freed");
    });
    while (!begun) std::this_thread::yield();
    weft_trainer_free(made.trainer);
    weft_world_free(made.world);
    thread.join();
  }
}

TEST(Host, CallsInAForkedProcess) {
  const Made made;
  losses(made, 1);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    weft_world* world = nullptr;
    const Batch batch;
    const auto refused = [](int status) {
      return status == WEFT_INPUT_ERROR && std::strstr(weft_last_error(), "forked from one that uses weft") != nullptr;
    };
    bool right = refused(weft_trainer_step(made.trainer, &batch.input, 1, &batch.target, nullptr));
    right &= refused(weft_world_join(0, 1, "127.0.0.1:1", 1, &world));
    weft_trainer_free(made.trainer);
    weft_world_free(made.world);
    _exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  losses(made, 1);
}

}  // namespace
}  // namespace weft::c_host_test
