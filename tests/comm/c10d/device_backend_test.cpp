// What weft adds to an engine of a device, on one that stands in for it: calls and messages are compared, ranks leave in order,
// a rank that has gone or a call that does not end is noticed while the host waits for nothing, and connections are shared.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/comm/c10d/stand_in_engine.h"
#include "tests/comm/reference.h"
#include "tests/support/run_processes.h"
#include "tests/support/run_ranks.h"
#include "tests/support/wait_until.h"
#include "weft/base/error.h"
#include "weft/comm/mesh.h"

namespace weft::device_backend_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using test::stand_in_group;
using test::StandInGroup;

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const CommError& error) {
    return error.what();
  }
  return "no error";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(DeviceBackend, MovesWhatOthersMove) {
  for (const int ranks : {2, 4}) {
    for (const bool tree_order : {false, true}) {
      for (const int64_t numel : {8, 1001, 0}) {
        SCOPED_TRACE(fmt::format("{} ranks, {} elements, tree order {}", ranks, numel, tree_order));
        test::run_ranks(ranks, [&](World world) {
          const Group group = stand_in_group(world, {.timeout = 20s, .tree_order = tree_order}).group;
          const int rank = world.rank();
          const ShardRange own = shard_range(numel, ranks, rank);
          const float total = static_cast<float>(ranks * (ranks + 1)) / 2;
          at::Tensor all = at::full({numel}, rank + 1.0F), part = at::zeros({own.end - own.begin});
          group.reduce_scatter(part, all, ReduceOp::sum, "part").wait();
          EXPECT_TRUE(part.equal(at::full({own.end - own.begin}, total)));
          group.all_reduce(all, ReduceOp::max, "all").wait();
          EXPECT_TRUE(all.equal(at::full({numel}, static_cast<float>(ranks))));
          group.all_gather(all, part, "all").wait();
          EXPECT_TRUE(all.equal(at::full({numel}, total)));
          at::Tensor mixed = at::zeros({ranks * (own.end - own.begin)});
          group.all_to_all(mixed, all, "mixed").wait();
          EXPECT_TRUE(mixed.equal(at::full({mixed.numel()}, total)));
          at::Tensor word = at::full({numel}, static_cast<float>(rank));
          group.broadcast(word, 1, "word").wait();
          EXPECT_TRUE(word.equal(at::ones({numel})));
          at::Tensor from = at::zeros({numel}), to = at::full({numel}, static_cast<float>(rank));
          Work sent = group.send(to, (rank + 1) % ranks, "round");
          group.receive(from, (rank + ranks - 1) % ranks, "round").wait();
          sent.wait();
          EXPECT_TRUE(from.equal(at::full({numel}, static_cast<float>((rank + ranks - 1) % ranks))));
          group.barrier("end").wait();
        });
      }
    }
  }
}

struct Mismatch {
  const char* name;
  std::function<void(const Group&)> first, second;  ///< the calls of ranks 0 and 1
  std::vector<std::string> says;                    ///< by the rank that finds it, and by the other after it
};

const std::vector<Mismatch>& mismatches() {
  const auto send = [](int64_t numel, at::ScalarType dtype, const char* what) {
    return [=](const Group& group) { group.send(at::ones({numel}, dtype), 1, what); };
  };
  const auto receive = [](int64_t numel, at::ScalarType dtype, const char* what) {
    return [=](const Group& group) { group.receive(at::ones({numel}, dtype), 0, what); };
  };
  static const std::vector<Mismatch> rows = {
      {"size",
       send(8, at::kFloat, "activation"),
       receive(9, at::kFloat, "activation"),
       {"rank 0 (dp 0 of 2) called send of 8 float32", "receive of 9 float32 from rank 0 \"activation\""}},
      {"type", send(8, at::kFloat, "activation"), receive(8, at::kInt, "activation"), {"float32", "int32"}},
      {"name", send(8, at::kFloat, "block 1"), receive(8, at::kFloat, "block 2"), {"\"block 1\"", "\"block 2\""}},
      {"order",
       [=](const Group& group) {
         send(8, at::kFloat, "first")(group);
         send(8, at::kFloat, "second")(group);
       },
       [=](const Group& group) {
         receive(8, at::kFloat, "second")(group);
         receive(8, at::kFloat, "first")(group);
       },
       {"\"first\"", "\"second\""}},
      {"nothing", send(0, at::kFloat, "nothing"), receive(8, at::kFloat, "something"), {"\"nothing\"", "\"something\""}},
      {"collective",
       [](const Group& group) { group.all_reduce(at::ones({8}), ReduceOp::sum, "gradients"); },
       [](const Group& group) { group.all_reduce(at::ones({9}), ReduceOp::sum, "gradients"); },
       {"of 8 float32", "of 9 float32"}},
  };
  return rows;
}

// The host waits for no message: both ranks learn of it in a call that comes later.
TEST(DeviceBackend, MismatchesAreErrors) {
  for (const Mismatch& row : mismatches()) {
    SCOPED_TRACE(row.name);
    std::string errors[2];
    test::run_ranks(2, [&](World world) {
      const StandInGroup own = stand_in_group(world);
      own.engine->hold();  // Gloo would end the process
      errors[world.rank()] = error_of([&] {
        (world.rank() == 0 ? row.first : row.second)(own.group);
        for (const auto start = Clock::now(); Clock::now() - start < 10s;) own.group.barrier("later").wait();
      });
      EXPECT_TRUE(wait_until([&] { return own.engine->is_aborted(); }, 10.0));  // the error can be thrown before
    });
    bool is_named = true;
    for (const std::string& part : row.says) is_named &= has(errors[0], part) || has(errors[1], part);
    EXPECT_TRUE(is_named) << errors[0] << "\n" << errors[1];
    for (const std::string& error : errors) EXPECT_NE(error, "no error");
  }
}

// The first rank has left long before the others make their calls.
TEST(DeviceBackend, ARankThatLeavesFirstBreaksNobody) {
  for (const int ranks : {2, 4}) {
    std::vector<std::string> errors(static_cast<size_t>(ranks));
    test::run_ranks(ranks, [&](World world) {
      StandInGroup own = stand_in_group(world);
      std::vector<at::Tensor> sums;
      std::vector<Work> works;
      const bool leaves = world.rank() == 0;
      for (int i = 0; i < 20; ++i) {
        if (!leaves && i % 10 == 0) std::this_thread::sleep_for(50ms * world.rank());
        sums.push_back(at::ones({1000}));
        works.push_back(own.group.all_reduce(sums.back(), ReduceOp::sum, "gradients"));
        if (world.rank() < 2) {
          const at::Tensor message = at::ones({8});
          works.push_back(leaves ? own.group.send(message, 1, "activation") : own.group.receive(message, 0, "activation"));
        }
      }
      if (leaves) return;
      for (Work& work : works) work.wait();
      own.group.throw_if_failed();
      for (const at::Tensor& sum : sums) EXPECT_EQ(sum[999].item<float>(), static_cast<float>(ranks));
      errors[static_cast<size_t>(world.rank())] =
          error_of([&] { own.group.all_reduce(sums[0], ReduceOp::sum, "one more").wait(); });
    });
    if (ranks == 2) {
      EXPECT_TRUE(has(errors[1], "rank 0")) << errors[1];
    }
    for (int rank = 1; rank < ranks; ++rank) EXPECT_NE(errors[static_cast<size_t>(rank)], "no error");
  }
}

TEST(DeviceBackend, ACallThatTheDeviceDoesNotFinishEnds) {
  std::string errors[2];
  test::run_ranks(2, [&](World world) {
    const StandInGroup own = stand_in_group(world, {.timeout = 700ms});
    own.engine->hold();
    const auto start = Clock::now();
    own.group.all_reduce(at::ones({8}), ReduceOp::sum, "gradients");
    EXPECT_TRUE(wait_until([&] { return own.engine->is_aborted(); }, 10.0));
    EXPECT_LT(Clock::now() - start, 5s);
    errors[world.rank()] = error_of([&] { own.group.throw_if_failed(); });
  });
  const auto text = [](int other) {
    return fmt::format(
        "in all_reduce sum of 8 float32 \"gradients\" with rank {}: the ranks have made this call, but cpu has not finished it "
        "after 0.7 s",
        other);
  };
  EXPECT_TRUE(has(errors[0], text(1)) || has(errors[1], text(0))) << errors[0] << "\n" << errors[1];
}

/// Rank 1 is killed once all have made a call, which the engine does not notice. The others wait for the device alone, which
/// only the abort ends.
void expect_death_is_noticed(const std::vector<std::string>& hosts, const std::string& label) {
  const auto results = test::run_processes(
      3,
      [](World world) -> std::string {
        const StandInGroup own = stand_in_group(world, {.timeout = 60s});
        own.group.all_reduce(at::ones({8}), ReduceOp::sum, "first").wait();
        own.engine->hold();
        own.group.all_reduce(at::ones({8}), ReduceOp::sum, "second");
        own.group.barrier("compared").wait();
        const auto start = Clock::now();
        if (world.rank() == 1) ::kill(::getpid(), SIGKILL);
        while (!own.engine->is_aborted() && Clock::now() - start < 30s) std::this_thread::sleep_for(5ms);
        const auto waited = Clock::now() - start;
        return fmt::format("{} {}", waited < 8s ? "soon:" : "late:", error_of([&] { own.group.throw_if_failed(); }));
      },
      {.label = label, .hosts = hosts});
  EXPECT_EQ(results[1].signal, SIGKILL);
  for (const int rank : {0, 2}) {
    const std::string text = results[rank].output + results[rank].error;
    EXPECT_TRUE(has(text, "soon:")) << text;
    EXPECT_TRUE(has(text, "rank 1 (dp 1 of 3)")) << text;
    EXPECT_TRUE(has(text, "all_reduce sum of 8 float32 \"second\"")) << text;
  }
}

TEST(DeviceProcesses, AKilledRankIsNamedWhileTheHostWaitsForTheDevice) { expect_death_is_noticed({}, "one host"); }

TEST(DeviceProcesses, AKilledRankOfAnotherHostIsNamed) { expect_death_is_noticed({"a", "b", "c"}, "hosts"); }

TEST(DeviceBackend, GroupsOfTheSameRanksShareAConnectionMadeAtTheStart) {
  test::run_ranks(4, [](World world) {
    StandInGroup first = stand_in_group(world, {.timeout = 20s});
    ASSERT_TRUE(first.engine);
    EXPECT_EQ(first.engine->calls(), "allreduce");
    StandInGroup second = stand_in_group(world, {.timeout = 20s, .tree_order = true, .passes_messages = true});
    EXPECT_FALSE(second.engine);  // none was made
    EXPECT_EQ(first.engine->calls(), world.rank() % 2 == 0 ? "allreduce allreduce alltoall send recv send recv"
                                                           : "allreduce allreduce alltoall recv send recv send");
    const at::Tensor sum = at::ones({7});
    Work work = first.group.all_reduce(sum, ReduceOp::sum, "first");
    second.group.all_reduce(at::ones({8}), ReduceOp::sum, "second").wait();
    work.wait();
    EXPECT_TRUE(sum.equal(at::full({7}, 4.0F)));
    EXPECT_EQ(first.group.traffic().calls, 1);
    EXPECT_EQ(second.group.traffic().calls, 1);
    first.group = Group();
    work = Work();
    second.group.barrier("it remains").wait();
    second.group = Group();
    EXPECT_TRUE(first.engine->calls().ends_with("shutdown")) << first.engine->calls();
    EXPECT_TRUE(stand_in_group(world).engine);  // a new one
  });
}

TEST(DeviceBackend, ADeviceWithoutAnEngineIsAnError) {
  test::run_ranks(2, [](World world) {
    const Mesh mesh(world, {{"dp", 2}});
    EXPECT_THROW(mesh.group(mesh.axis("dp"), {.device = at::kMeta}), InputError);
  });
}

}  // namespace
}  // namespace weft::device_backend_test
