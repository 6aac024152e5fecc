// Failures between ranks: mismatched calls, ranks that leave, hang or are killed. Each ends in bounded time, on every rank,
// with an error that names the operation and the ranks.
#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <thread>

#include "tests/support/blocked_sigpipe.h"
#include "tests/support/run_processes.h"
#include "tests/support/run_ranks.h"
#include "tests/support/wait_until.h"
#include "weft/base/error.h"
#include "weft/comm/mesh.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Body = std::function<void(const Group&)>;

struct Mismatch {
  std::string name;
  Body first;   // rank 0's calls
  Body second;  // the other ranks' calls
  std::vector<std::string> says;
  bool on_gloo = true;
};

void all_reduce(const Group& group, int64_t numel, std::string_view what, ReduceOp op = ReduceOp::sum) {
  group.all_reduce(at::ones({numel}), op, what).wait();
}

const std::vector<Mismatch>& mismatches() {
  static const std::vector<Mismatch> rows = {
      {"Operation",
       [](const Group& group) { all_reduce(group, 8, "gradients"); },
       [](const Group& group) { group.broadcast(at::ones({8}), 0, "weights").wait(); },
       {"rank 0 (dp 0 of ", ") called all_reduce sum of 8 float32 \"gradients\"", "rank 1 (dp 1 of ",
        ") called broadcast of 8 float32 from rank 0 \"weights\""}},
      {"Count",
       [](const Group& group) { all_reduce(group, 8, "gradients"); },
       [](const Group& group) { all_reduce(group, 9, "gradients"); },
       {"of 8 float32", "of 9 float32"}},
      {"Type",
       [](const Group& group) { all_reduce(group, 8, "gradients"); },
       [](const Group& group) { group.all_reduce(at::ones({8}, at::kDouble), ReduceOp::sum, "gradients").wait(); },
       {"float32", "float64"}},
      {"ReduceOp",
       [](const Group& group) { all_reduce(group, 8, "loss"); },
       [](const Group& group) { all_reduce(group, 8, "loss", ReduceOp::max); },
       {"all_reduce sum", "all_reduce max"}},
      {"Root",
       [](const Group& group) { group.broadcast(at::ones({8}), 0, "weights").wait(); },
       [](const Group& group) { group.broadcast(at::ones({8}), 1, "weights").wait(); },
       {"from rank 0", "from rank 1"}},
      {"Name",
       [](const Group& group) { all_reduce(group, 8, "bucket 1"); },
       [](const Group& group) { all_reduce(group, 8, "bucket 2"); },
       {"\"bucket 1\"", "\"bucket 2\""}},
      {"MessageCount",
       [](const Group& group) {
         group.send(at::ones({8}), 1, "activation").wait();
         group.barrier("end").wait();
       },
       [](const Group& group) {
         if (group.rank() == 1) group.receive(at::ones({9}), 0, "activation").wait();
         group.barrier("end").wait();
       },
       {"send of 8 float32", "receive of 9 float32 from rank 0"},
       false},
      {"MessageTooLong",
       [](const Group& group) {
         group.send(at::ones({100000}), 1, "activation").wait();
         group.barrier("end").wait();
       },
       [](const Group& group) {
         if (group.rank() == 1) group.receive(at::ones({9}), 0, "activation").wait();
         group.barrier("end").wait();
       },
       {"send of 100000 float32", "receive of 9 float32 from rank 0"},
       false},
      {"ReceiveAgainstCollective",
       [](const Group& group) { group.receive(at::ones({8}), 1, "activation").wait(); },
       [](const Group& group) { group.barrier("end of step").wait(); },
       {"receive of 8 float32 from rank 1 \"activation\"", "barrier \"end of step\""},
       false},
      {"ReceiveAgainstReceive",
       [](const Group& group) { group.receive(at::ones({8}), 1, "left").wait(); },
       [](const Group& group) { group.receive(at::ones({8}), 0, "right").wait(); },
       {"receive of 8 float32 from rank 1 \"left\"", "receive of 8 float32 from rank 0 \"right\""},
       false},
      {"SendAgainstSend",
       [](const Group& group) { group.send(at::ones({1 << 20}), 1, "left").wait(); },
       [](const Group& group) { group.send(at::ones({1 << 20}), 0, "right").wait(); },
       {"send of 1048576 float32 to rank 1 \"left\"", "send of 1048576 float32 to rank 0 \"right\""},
       false},
  };
  return rows;
}

// All ranks' errors, each expected within a second.
std::vector<std::string> errors_of(int ranks, BackendKind backend, const Body& first, const Body& second) {
  std::vector<std::string> errors(ranks);
  test::run_ranks(ranks, [&](World world) {
    const Mesh mesh(world, {{"dp", ranks}});
    const Group group = mesh.group(mesh.axis("dp"), {.backend = backend, .timeout = 20s});
    const auto start = Clock::now();
    try {
      (world.rank() == 0 ? first : second)(group);
    } catch (const CommError& error) {
      errors[world.rank()] = error.what();
    }
    if (Clock::now() - start > 1s) errors[world.rank()] += " (too late)";
  });
  return errors;
}

class Mismatches : public testing::TestWithParam<int> {};

TEST_P(Mismatches, EveryRankNamesBothCalls) {
  const Mismatch& row = mismatches()[GetParam()];
  for (BackendKind backend : {BackendKind::shm, BackendKind::gloo}) {
    if (backend == BackendKind::gloo && !row.on_gloo) continue;
    for (int ranks : {2, 3}) {
      if (ranks == 3 && !row.on_gloo) continue;
      for (const std::string& error : errors_of(ranks, backend, row.first, row.second)) {
        for (const std::string& part : row.says) EXPECT_NE(error.find(part), std::string::npos) << error;
        EXPECT_EQ(error.find("too late"), std::string::npos) << error;
        EXPECT_NE(error.find("\"dp\""), std::string::npos) << error;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Comm, Mismatches, testing::Range(0, static_cast<int>(mismatches().size())),
                         [](const auto& info) { return mismatches()[info.param].name; });

/// Calls that move no data are compared several at a time, as many as all ranks have made: each rank names the first that
/// differs, and those before it hold.
TEST(CallsInARow, TheFirstThatDiffersIsNamed) {
  constexpr int kCalls = 40;
  for (const int ranks : {2, 3}) {
    for (const int wrong : {0, 12, 15, 16, kCalls - 1, kCalls}) {
      SCOPED_TRACE(fmt::format("{} ranks, call {} differs", ranks, wrong));
      std::vector<std::string> errors(static_cast<size_t>(ranks));
      std::vector<int> held(static_cast<size_t>(ranks));
      test::run_ranks(ranks, [&](World world) {
        const Mesh mesh(world, {{"dp", ranks}});
        const Group group = mesh.group(mesh.axis("dp"), {.backend = BackendKind::gloo, .timeout = 20s});
        const bool is_wrong = world.rank() == 1;
        std::vector<Work> works;
        try {
          for (int i = 0; i < kCalls; ++i) {
            if (is_wrong && i % 9 == 0) std::this_thread::sleep_for(1ms);  // the others are ahead
            works.push_back(group.barrier(fmt::format("call {}{}", i, is_wrong && i == wrong ? " of another" : "")));
          }
          for (Work& work : works) {
            work.wait();
            ++held[world.rank()];
          }
        } catch (const CommError& error) {
          errors[world.rank()] = error.what();
        }
      });
      for (int rank = 0; rank < ranks; ++rank) {
        if (wrong == kCalls) {
          EXPECT_EQ(held[rank], kCalls) << errors[rank];
          continue;
        }
        EXPECT_LE(held[rank], wrong) << "the call that differs, and later ones";
        for (const std::string& part : {fmt::format("in call number {}:", wrong + 1), fmt::format("\"call {}\"", wrong),
                                        fmt::format("\"call {} of another\"", wrong)}) {
          EXPECT_NE(errors[rank].find(part), std::string::npos) << errors[rank];
        }
      }
    }
  }
}

TEST(Failures, AMissingRankIsNamedAtTheDeadline) {
  for (BackendKind backend : {BackendKind::shm, BackendKind::gloo}) {
    std::string error;
    std::atomic<int> ended = 0;
    test::run_ranks(3, [&](World world) {
      const Mesh mesh(world, {{"dp", 3}});
      const Group group = mesh.group(mesh.axis("dp"), {.backend = backend, .timeout = 700ms});
      all_reduce(group, 4, "warm-up");
      while (world.rank() == 2 && ended < 2) std::this_thread::sleep_for(5ms);
      if (world.rank() == 2) return;
      try {
        all_reduce(group, 8, "gradients of block 3");
      } catch (const CommError& thrown) {
        if (world.rank() == 0) error = thrown.what();
      }
      ++ended;
    });
    EXPECT_NE(error.find("rank 2"), std::string::npos) << error;
    EXPECT_NE(error.find("gradients of block 3"), std::string::npos) << error;
    if (backend == BackendKind::gloo) continue;
    EXPECT_NE(error.find("warm-up"), std::string::npos) << error;
  }
}

TEST(Failures, ARankThatLeavesIsNamed) {
  for (BackendKind backend : {BackendKind::shm, BackendKind::gloo}) {
    std::string error;
    test::run_ranks(2, [&](World world) {
      const Mesh mesh(world, {{"dp", 2}});
      const Group group = mesh.group(mesh.axis("dp"), {.backend = backend, .timeout = 20s});
      group.barrier("connected").wait();
      if (world.rank() == 1) return;
      const auto start = Clock::now();
      try {
        all_reduce(group, 8, "gradients");
      } catch (const CommError& thrown) {
        error = thrown.what();
      }
      EXPECT_LT(Clock::now() - start, 2s);
    });
    EXPECT_NE(error.find("rank 1"), std::string::npos) << error;
    EXPECT_NE(error.find("all_reduce"), std::string::npos) << error;
  }
}

// Both are in flight before either is waited for: Gloo's own thread notices.
TEST(Failures, AMessageThatIsTooLongEndsNoProcess) {
  for (BackendKind backend : {BackendKind::shm, BackendKind::gloo}) {
    std::string errors[2];
    test::run_ranks(2, [&](World world) {
      const Mesh mesh(world, {{"dp", 2}});
      const Group group = mesh.group(mesh.axis("dp"), {.backend = backend, .timeout = 20s});
      try {
        Work message = world.rank() == 0 ? group.receive(at::ones({9}), 1, "keys") : group.send(at::ones({100}), 0, "keys");
        group.barrier("under way").wait();
        message.wait();
        group.barrier("end").wait();
      } catch (const CommError& thrown) {
        errors[world.rank()] = thrown.what();
      }
    });
    EXPECT_NE(errors[0].find("send of 100 float32"), std::string::npos) << errors[0];
    EXPECT_NE(errors[0].find("receive of 9 float32 from rank 1"), std::string::npos) << errors[0];
    EXPECT_NE(errors[1], "");
  }
}

// Whether a Gloo thread writes before it has read that the peer left depends on microseconds.
TEST(Failures, APeersClosedConnectionEndsNoProcess) {
  const auto expect_blocking = [](BackendKind backend, int least) {
    std::atomic<int> count = 0;
    test::run_ranks(2, [&](World world) {
      const Mesh mesh(world, {{"dp", 2}});
      const Group group = mesh.group(mesh.axis("dp"), {.backend = backend});
      all_reduce(group, 4, "warm-up");
      if (world.rank() == 0) {
        EXPECT_TRUE(wait_until([&] { return (count = test::num_blocking_sigpipe()) >= least; }, 10.0))
            << count << " of " << least;
      }
      group.barrier("counted").wait();
    });
    return count.load();
  };
  const int of_each_rank = 3;  // Gloo's I/O thread, c10d's worker, weft's calling thread
  expect_blocking(BackendKind::gloo, expect_blocking(BackendKind::shm, 0) + 2 * of_each_rank);
}

// Like the comparisons of NCCL's calls, which the host runs ahead of.
TEST(Failures, ARankThatLeavesBeforeItsQueuedCallsEndBreaksNobody) {
  test::run_ranks(2, [&](World world) {
    const Mesh mesh(world, {{"dp", 2}});
    const Group group = mesh.group(mesh.axis("dp"), {.backend = BackendKind::gloo, .timeout = 30s});
    std::vector<at::Tensor> sums;
    std::vector<Work> works;
    for (int i = 0; i < 20; ++i) {
      if (world.rank() == 1 && i % 10 == 0) std::this_thread::sleep_for(50ms);
      sums.push_back(at::ones({1000}));
      works.push_back(group.all_reduce(sums.back(), ReduceOp::sum, "gradients"));
    }
    if (world.rank() == 0) return;  // with its queued calls
    for (Work& work : works) work.wait();
    for (const at::Tensor& sum : sums) EXPECT_EQ(sum[999].item<float>(), 2.0F);
  });
}

/// A rank that leaves after an error does not wait for queued calls either, started or not.
TEST(Failures, ARankThatFailsWaitsForNoQueuedCall) {
  for (const std::vector<std::string>& hosts : {std::vector<std::string>{}, {"a", "b"}}) {
    for (const auto pause : {0ms, 300ms}) {
      for (const int queued : {1, 20}) {
        const auto start = Clock::now();
        std::atomic<bool> has_left = false;
        const auto fail_with_calls = [&](const World& world) {
          const Mesh mesh(world, {{"dp", 2}});
          const BackendKind kind = hosts.empty() ? BackendKind::gloo : BackendKind::automatic;
          const Group group = mesh.group(mesh.axis("dp"), {.backend = kind, .timeout = 30s});
          group.barrier("connected").wait();
          if (world.rank() == 1) {
            EXPECT_TRUE(wait_until([&] { return has_left.load(); }, 10.0));
            return;
          }
          const at::Tensor sum = at::ones({1000});
          for (int i = 0; i < queued; ++i) group.all_reduce(sum, ReduceOp::sum, "gradients");
          std::this_thread::sleep_for(pause);
          throw InputError("the culprit");
        };
        EXPECT_THROW(test::run_ranks(2,
                                     [&](World world) {
                                       try {
                                         fail_with_calls(world);
                                       } catch (const InputError&) {
                                         has_left = true;
                                         throw;
                                       }
                                     },
                                     {.hosts = hosts}),
                     test::RankError);
        EXPECT_LT(Clock::now() - start, 15s)
            << queued << " queued, " << hosts.size() << " hosts, after " << pause.count() << " ms";
      }
    }
  }
}

int threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

/// LibTorch's operators in the group's thread would otherwise create their own pool.
TEST(Failures, GroupThreadsCreateNoThreadPool) {
  const std::vector<std::string> hosts = {"a", "b"};
  const auto results = test::run_processes(2,
                                           [](World world) -> std::string {
                                             at::set_num_threads(3);
                                             const Mesh mesh(world, {{"dp", 2}});
                                             const at::Tensor x = at::ones({1 << 22});
                                             x.add(1);  // creates the expected pool
                                             std::string found;
                                             for (const AcrossHosts across : {AcrossHosts::exact, AcrossHosts::bf16}) {
                                               const Group group = mesh.group(mesh.axis("dp"), {.across_hosts = across});
                                               group.barrier("begin").wait();
                                               const int before = threads_of_this_process();
                                               group.all_reduce(x, ReduceOp::sum, "gradients").wait();
                                               if (threads_of_this_process() > before)
                                                 found += fmt::format("{} ", kAcrossHosts.of(across));
                                               group.barrier("counted").wait();
                                             }
                                             return found;
                                           },
                                           {.label = "threads", .hosts = hosts});
  for (const test::ProcessResult& result : results) EXPECT_EQ(result.output + result.error, "");
}

TEST(Failures, AFailedGroupRepeatsItsError) {
  test::run_ranks(2, [&](World world) {
    const Mesh mesh(world, {{"dp", 2}});
    const Group group = mesh.group(mesh.axis("dp"));
    std::string first, second;
    try {
      all_reduce(group, 8 + world.rank(), "gradients");
    } catch (const CommError& error) {
      first = error.what();
    }
    try {
      group.barrier("after").wait();
    } catch (const CommError& error) {
      second = error.what();
    }
    EXPECT_FALSE(first.empty());
    EXPECT_EQ(first, second);
  });
}

TEST(Failures, RunRanksReportsTheFirstRankThatFailed) {
  try {
    test::run_ranks(3, [](World world) {
      const Mesh mesh(world, {{"dp", 3}});
      const Group group = mesh.group(mesh.axis("dp"));
      if (world.rank() == 1) throw InputError("the culprit");
      group.barrier("end").wait();
    });
    FAIL() << "no error";
  } catch (const test::RankError& error) {
    EXPECT_STREQ(error.what(), "rank 1: the culprit");
  }
}

TEST(Failures, RunRanksEndsAtItsDeadline) {
  const auto stop = std::make_shared<std::atomic<bool>>(false);
  EXPECT_THROW(test::run_ranks(2,
                               [stop](World world) {
                                 while (world.rank() == 1 && !*stop) std::this_thread::sleep_for(1ms);
                               },
                               {.timeout = 50ms}),
               test::RankError);
  *stop = true;
}

std::vector<std::string> shared_memory_files() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) names.push_back(entry.path());
  return names;
}

// The rank is killed during a call; the others must report it within two seconds.
void expect_death_is_noticed(BackendKind backend, const std::string& label) {
  const auto results =
      test::run_processes(3,
                          [&](World world) -> std::string {
                            const Mesh mesh(world, {{"dp", 3}});
                            const Group group = mesh.group(mesh.axis("dp"), {.backend = backend, .timeout = 30s});
                            const at::Tensor buffer = group.allocate(1000, at::kFloat, "buffer");
                            group.all_reduce(buffer, ReduceOp::sum, "first").wait();
                            const auto start = Clock::now();
                            if (world.rank() == 1) {
                              std::this_thread::sleep_for(100ms);
                              ::kill(::getpid(), SIGKILL);
                            }
                            try {
                              group.all_reduce(buffer, ReduceOp::sum, "second").wait();
                            } catch (const CommError& error) {
                              const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
                              return fmt::format("{} {}", waited < 2s ? "soon:" : "late:", error.what());
                            }
                            return "no error";
                          },
                          {.label = label});
  EXPECT_EQ(results[1].signal, SIGKILL);
  for (int rank : {0, 2}) {
    const std::string& text = results[rank].output + results[rank].error;
    EXPECT_EQ(text.rfind("soon:", 0), 0u) << text;
    EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
    EXPECT_NE(text.find("died"), std::string::npos) << text;
    EXPECT_NE(text.find("all_reduce sum of 1000 float32 \"second\""), std::string::npos) << text;
  }
}

TEST(Processes, AKilledRankIsNamedAndLeavesNothing) {
  const auto before = shared_memory_files();
  expect_death_is_noticed(BackendKind::shm, "shm");
  EXPECT_EQ(shared_memory_files(), before);
}

TEST(Processes, AKilledRankIsNamedOnGloo) { expect_death_is_noticed(BackendKind::gloo, "gloo"); }

}  // namespace
}  // namespace weft
