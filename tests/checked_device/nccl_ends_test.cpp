// How communicators are made and end: in other orders, aborted, late.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "tests/checked_device/nccl_ranks.h"
#include "tests/support/blocked_sigpipe.h"
#include "tests/support/wait_until.h"

namespace weft::checked_device {
namespace {

TEST(Abort, EndsWaitsOfTheHost) {
  const std::string said = run(2, [](const Rank& r) {
    const Engine engine = r.group("dp");
    engine->eagerConnectSingleDevice(device(r.rank));
    if (r.rank == 1) return r.store->wait({"aborted"});
    Tensors t{at::ones({8}, r.on())};
    const auto work = engine->allreduce(t);  // the peer never calls
    std::thread aborts([&] { engine->abort(); });
    settle(r);
    aborts.join();
    r.store->set("aborted", std::vector<uint8_t>{1});
    TORCH_CHECK(!error_of([&] { work->wait(); }).empty(), "wait() says nothing");
    engine->shutdown();
  });
  EXPECT_EQ(said + violations(), "");
}

// Whether a thread writes before it knows that the peer has aborted depends on microseconds.
TEST(Communicators, ClosedByAPeerEndNoProcess) {
  device();
  const int before = test::num_blocking_sigpipe();
  const std::string said = run(2, [&](const Rank& r) {
    const Engine engine = r.group("dp");
    Tensors t{at::ones({8}, r.on())};
    engine->allreduce(t)->wait();
    settle(r);
    constexpr int kOfEachRank = 3;  // Gloo's I/O thread, c10d's worker, the communicator's thread
    if (r.rank == 0) {
      const auto all = [&] { return test::num_blocking_sigpipe() >= before + 2 * kOfEachRank; };
      TORCH_CHECK(wait_until(all, 10.0), test::num_blocking_sigpipe() - before, " threads block SIGPIPE");
    }
    r.store->set("end " + std::to_string(r.rank), std::vector<uint8_t>{1});
    for (int rank = 0; rank < r.size; ++rank) r.store->wait({"end " + std::to_string(rank)});
  });
  EXPECT_EQ(said + violations(), "");
}

TEST(Communicators, MadeInAStepAreCounted) {
  reset_counts();
  const std::string said = run(2, [](const Rank& r) {
    const Engine eager = r.group("dp"), lazy = r.group("pp");
    eager->eagerConnectSingleDevice(device(r.rank));
    const Label label("step");
    Tensors t{at::ones({8}, r.on())};
    eager->allreduce(t)->wait();
    (r.rank == 0 ? eager->send(t, 1, 0) : eager->recv(t, 0, 0))->wait();
    (r.rank == 0 ? lazy->send(t, 1, 0) : lazy->recv(t, 0, 0))->wait();
    settle(r);
    r.store->set("end " + std::to_string(r.rank), std::vector<uint8_t>{1});
    for (int rank = 0; rank < r.size; ++rank) r.store->wait({"end " + std::to_string(rank)});
  });
  EXPECT_EQ(said + violations(), "");
  EXPECT_EQ(counts().at("").communicators, 2u);
  EXPECT_EQ(counts().at("step").communicators, 2u);  // of the pair, one on each rank
}

TEST(Communicators, MadeInOtherOrdersBlock) {
  const std::string said = run(
      2,
      [](const Rank& r) {
        const Engine dp = r.group("dp"), tp = r.group("tp");
        Tensors t{at::ones({8}, r.on())};
        (r.rank == 0 ? dp : tp)->allreduce(t);
        (r.rank == 0 ? tp : dp)->allreduce(t);
      },
      std::chrono::milliseconds(200));
  EXPECT_EQ(said, "rank 0: Wait timeout\nrank 1: Wait timeout\n");
  take_violations();
}

/// Rank 0 calls, rank 1 never does.
std::string call_alone(std::chrono::milliseconds timeout) {
  return run(
      2,
      [](const Rank& r) {
        const Engine engine = r.group("dp");
        engine->eagerConnectSingleDevice(device(r.rank));
        if (r.rank == 1) return r.store->wait({"never"}, std::chrono::seconds(2));
        Tensors t{at::ones({8}, r.on())};
        const auto work = engine->allreduce(t);
        settle(r);
        r.store->set("never", std::vector<uint8_t>{1});
        work->wait();
      },
      timeout);
}

class Watchdogs : public testing::Test {
 protected:
  void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(Watchdogs, EndTheProcessAfterTheTimeout) {
  EXPECT_DEATH(call_alone(std::chrono::milliseconds(300)), "watchdog: nccl all_reduce .launch .* has not ended within 300 ms");
}

TEST_F(Watchdogs, OnlyAbortIfAsked) {
  setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2", 1);
  EXPECT_NE(call_alone(std::chrono::milliseconds(300)).find("rank 0: the communicator was aborted"), std::string::npos);
  unsetenv("TORCH_NCCL_ASYNC_ERROR_HANDLING");
  take_violations();
}

TEST_F(Watchdogs, AreWatched) {
  EXPECT_DEATH(
      {
        setenv("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "1", 1);
        stall_watchdogs(true);
        call_alone(std::chrono::seconds(3));
      },
      "monitor: the watchdog has not beaten");
}

}  // namespace
}  // namespace weft::checked_device
