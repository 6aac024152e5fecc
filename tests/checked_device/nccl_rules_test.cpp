// NCCL's rules: who keeps them gets right values, who breaks one is told which. Ranks are threads.
#include "weft/checked_device/nccl/nccl_rules.h"

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/core/DeviceGuard.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <ostream>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "tests/checked_device/device.h"

namespace weft::checked_device {
namespace {

using Tensors = std::vector<at::Tensor>;
using Engine = c10::intrusive_ptr<c10d::Backend>;

/// What a rank is given: rank r has device r.
struct Rank {
  int rank, size;
  c10::intrusive_ptr<c10d::Store> store;
  std::chrono::milliseconds timeout;

  at::TensorOptions on() const { return at::TensorOptions().device(device(rank)); }
  Engine group(const std::string& name) const {
    return make_nccl_rules(c10::make_intrusive<c10d::PrefixStore>(name, store), rank, size, device(rank),
                           {.name = name, .ranks = {}, .timeout = timeout});
  }
};

/// Runs the ranks, each on its device; returns what they threw, a line each.
std::string run(int size, const std::function<void(const Rank&)>& body,
                std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  device();
  const auto store = c10::make_intrusive<c10d::HashStore>();
  store->setTimeout(timeout);
  std::vector<std::string> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const c10::DeviceGuard guard(device(rank));
      errors[static_cast<size_t>(rank)] = error_of([&] { body({rank, size, store, timeout}); });
    });
  }
  std::string all;
  for (int rank = 0; rank < size; ++rank) {
    threads[static_cast<size_t>(rank)].join();
    const std::string& error = errors[static_cast<size_t>(rank)];
    if (!error.empty()) all += "rank " + std::to_string(rank) + ": " + error + "\n";
  }
  return all;
}

void settle(const Rank& r) { at::accelerator::synchronizeDevice(static_cast<at::DeviceIndex>(r.rank)); }

void expect_equal(const at::Tensor& a, const at::Tensor& b) { TORCH_CHECK(same_bits(a, b), "wrong values"); }

class Collectives : public testing::TestWithParam<int> {};

TEST_P(Collectives, HaveTheRightValues) {
  const std::string said = run(GetParam(), [](const Rank& r) {
    const Engine engine = r.group("dp");
    const int64_t n = r.size;
    const double sum = static_cast<double>(n * (n + 1)) / 2;
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kLong}) {
      const at::TensorOptions options = r.on().dtype(dtype);
      Tensors t{at::full({1000}, r.rank + 1, options)};
      engine->allreduce(t)->wait();
      expect_equal(t[0], at::full({1000}, sum, at::dtype(dtype)));
      t[0].fill_(r.rank);
      c10d::BroadcastOptions from;
      from.rootRank = n - 1;
      engine->broadcast(t, from)->wait();
      expect_equal(t[0], at::full({1000}, n - 1, at::dtype(dtype)));
      at::Tensor part = at::full({3}, r.rank, options), all = at::empty({3 * n}, options);
      engine->_allgather_base(all, part)->wait();
      expect_equal(all, at::arange(n, at::dtype(dtype)).repeat_interleave(3));
      engine->_reduce_scatter_base(part, all)->wait();
      expect_equal(part, at::full({3}, r.rank * n, at::dtype(dtype)));
      at::Tensor to = at::arange(n, options) + 10 * r.rank, from_all = at::empty({n}, options);
      std::vector<int64_t> counts(static_cast<size_t>(n), 1);
      engine->alltoall_base(from_all, to, counts, counts)->wait();
      expect_equal(from_all, at::arange(n, at::dtype(dtype)) * 10 + r.rank);
    }
    engine->barrier()->wait();
    settle(r);
    engine->shutdown();
  });
  EXPECT_EQ(said + violations(), "");
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(1, 2, 4));

TEST(Messages, ReachTheirPeers) {
  const std::string said = run(4, [](const Rank& r) {
    const Engine engine = r.group("pp");
    for (int round = 0; round < 3; ++round) {
      Tensors in{at::zeros({100}, r.on())}, out{at::full({100}, 10. * round + r.rank, r.on())};
      if (r.rank > 0) {
        engine->recv(in, r.rank - 1, 0)->wait();
        expect_equal(in[0], at::full({100}, 10. * round + r.rank - 1));
      }
      if (r.rank < 3) engine->send(out, r.rank + 1, 0)->wait();
    }
    // Both ways at once, as one launch of the group.
    Tensors in{at::zeros({100}, r.on())}, out{at::full({100}, 1. * r.rank, r.on())};
    engine->startCoalescing();
    engine->send(out, r.rank ^ 1, 0);
    engine->recv(in, r.rank ^ 1, 0);
    engine->endCoalescing()->wait();
    expect_equal(in[0], at::full({100}, r.rank ^ 1, at::kFloat));
    settle(r);
    engine->shutdown();
  });
  EXPECT_EQ(said + violations(), "");
}

/// A fault, made by all ranks together, and what is said of it.
struct NcclFault {
  const char* name;
  int size;
  std::function<void(const Rank&, c10d::Backend&)> make;
  const char* said;  ///< ""; nothing
};
void PrintTo(const NcclFault& fault, std::ostream* out) { *out << fault.name; }

const NcclFault kNcclFaults[] = {
    {"ResultIsUsedBeforeWait", 2,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors t{at::ones({8}, r.on())};
       const auto work = engine.allreduce(t);
       const at::Tensor sum = t[0].sum();
       work->wait();
     },
     "which nccl all_reduce (launch"},
    {"SourceIsOverwrittenBeforeWait", 2,
     [](const Rank& r, c10d::Backend& engine) {
       at::Tensor part = at::ones({8}, r.on()), all = at::ones({16}, r.on());
       const auto work = engine._allgather_base(all, part);
       part.zero_();
       work->wait();
     },
     "which nccl all_gather (launch"},
    {"AnotherStreamWaits", 2,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors t{at::ones({8}, r.on())};
       const auto work = engine.allreduce(t);
       {
         const c10::StreamGuard guard(new_stream_of(r.rank));
         work->wait();
       }
       t[0].add_(1);
     },
     "which nccl all_reduce (launch"},
    {"InputIsNotWaitedForByTheCaller", 2,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors t{at::ones({8}, r.on())};
       const c10::StreamGuard guard(new_stream_of(r.rank));
       engine.allreduce(t)->wait();
     },
     "nccl all_reduce (launch"},
    {"BuffersAreDroppedBeforeWait", 2,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors t{at::ones({8}, r.on())};
       engine.allreduce(t);
       t.clear();
     },
     ""},
    {"DifferentCalls", 2,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors t{at::ones({8}, r.on())};
       (r.rank == 0 ? engine.allreduce(t) : engine.broadcast(t))->wait();
     },
     "dp of ranks 0, 1: rank 0 calls ALLREDUCE of 8 Float, rank 1 calls BROADCAST of 8 Float from rank 0"},
    {"DifferentSizes", 2,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors t{at::ones({8 + r.rank}, r.on())};
       engine.allreduce(t)->wait();
     },
     "rank 1 calls ALLREDUCE of 9 Float"},
    {"DifferentTypes", 2,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors t{at::ones({8}, r.on().dtype(r.rank == 0 ? at::kFloat : at::kHalf))};
       engine.allreduce(t)->wait();
     },
     "rank 1 calls ALLREDUCE of 8 Half"},
    {"BothSend", 2,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors out{at::ones({8}, r.on())}, in{at::ones({8}, r.on())};
       const auto sent = engine.send(out, 1 - r.rank, 0), got = engine.recv(in, 1 - r.rank, 0);
       sent->wait();
       got->wait();
     },
     "dp of ranks 0, 1, pair 0-1: rank 0 calls send of 8 Float, rank 1 calls send of 8 Float"},
    {"MessageOfAnotherSize", 2,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors t{at::ones({8 + r.rank}, r.on())};
       (r.rank == 0 ? engine.send(t, 1, 0) : engine.recv(t, 0, 0))->wait();
     },
     "rank 0 calls send of 8 Float, rank 1 calls receive of 9 Float"},
    {"CommunicatorsInOtherOrders", 2,
     [](const Rank& r, c10d::Backend& engine) {
       const Engine other = r.group("tp");
       engine.eagerConnectSingleDevice(device(r.rank));
       other->eagerConnectSingleDevice(device(r.rank));
       Tensors a{at::ones({8}, r.on())}, b{at::ones({8}, r.on())};
       const auto first = r.rank == 0 ? engine.allreduce(a) : other->allreduce(b);
       const auto second = r.rank == 0 ? other->allreduce(b) : engine.allreduce(a);
       first->wait();
       second->wait();
       settle(r);
     },
     "two communicators with these ranks in other orders may deadlock"},
    {"MessageAndCollectiveInOtherOrders", 2,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors a{at::ones({8}, r.on())}, b{at::ones({8}, r.on())};
       const auto message = [&] { return r.rank == 0 ? engine.send(b, 1, 0) : engine.recv(b, 0, 0); };
       // Both reach their first call of each communicator, so that neither blocks in making it.
       message()->wait();
       engine.allreduce(a)->wait();
       const auto first = r.rank == 0 ? engine.allreduce(a) : message(), second = r.rank == 0 ? message() : engine.allreduce(a);
       first->wait();
       second->wait();
       settle(r);
     },
     "in other orders may deadlock"},
    {"CommunicatorsInOneOrder", 2,
     [](const Rank& r, c10d::Backend& engine) {
       const Engine other = r.group("tp");
       Tensors a{at::ones({8}, r.on())}, b{at::ones({8}, r.on())};
       const auto first = engine.allreduce(a), second = other->allreduce(b);
       first->wait();
       second->wait();
       settle(r);
     },
     ""},
    {"DestroyedUnderACall", 2,
     [](const Rank& r, c10d::Backend&) {
       const Engine other = r.group("tp");
       Tensors t{at::ones({8}, r.on())};
       other->allreduce(t)->wait();
     },
     "tp of ranks 0, 1: destroyed without shutdown() before the host has waited for all calls"},
    {"ShutdownWaits", 2,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors t{at::ones({8}, r.on())};
       engine.allreduce(t)->wait();
       engine.shutdown();
       expect_equal(t[0], at::full({8}, 2.F));
     },
     ""},
    {"TensorOfAnotherDevice", 1,
     [](const Rank&, c10d::Backend& engine) {
       Tensors t{at::ones({8}, on(2))};
       engine.allreduce(t)->wait();
     },
     "is of checked:0, but a tensor is on checked:2"},
    {"TensorWithGaps", 1,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors t{at::ones({8, 8}, r.on()).narrow(1, 0, 4)};
       engine.allreduce(t)->wait();
     },
     "must be contiguous"},
    {"CallAfterAbort", 1,
     [](const Rank& r, c10d::Backend& engine) {
       engine.abort();
       Tensors t{at::ones({8}, r.on())};
       engine.allreduce(t)->wait();
     },
     "NCCL communicator was aborted on rank 0"},
};

class NcclFaults : public testing::TestWithParam<NcclFault> {};

TEST_P(NcclFaults, AreNamed) {
  take_violations();
  const NcclFault& fault = GetParam();
  std::string said = run(fault.size, [&](const Rank& r) {
    const Engine engine = r.group("dp");
    std::string error = error_of([&] { fault.make(r, *engine); });
    settle(r);
    // No rank may end the other's calls before they are done.
    r.store->set("end " + std::to_string(r.rank), std::vector<uint8_t>{1});
    for (int rank = 0; rank < r.size; ++rank) r.store->wait({"end " + std::to_string(rank)});
    engine->shutdown();
    TORCH_CHECK(error.empty(), error);
  });
  said += violations();
  if (*fault.said == 0) {
    EXPECT_EQ(said, "");
  } else {
    EXPECT_NE(said.find(fault.said), std::string::npos) << said;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, NcclFaults, testing::ValuesIn(kNcclFaults), [](const auto& info) { return info.param.name; });

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
