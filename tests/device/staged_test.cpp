// shm and Gloo for tensors of a device, through pinned memory: each call gives the right values and each training the CPU's
// bits, also where ranks share a device; each wait that is left out is found; a rank that leaves holds up none.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/device/on_device.h"
#include "tests/support/run_ranks.h"
#include "weft/base/error.h"
#include "weft/checked_device.h"
#include "weft/comm/mesh.h"
#include "weft/train/check/collective_checks.h"

namespace weft::staged_test {
namespace {

using namespace std::chrono_literals;

/// Of two devices, however many ranks there are.
at::Device shared_device(int rank) { return {at::kPrivateUse1, static_cast<at::DeviceIndex>(rank % 2)}; }

Group group_of(const World& world, BackendKind backend, bool tree_order = false) {
  const Mesh mesh(world, {{"dp", world.size()}});
  return mesh.group(mesh.axis("dp"),
                    {.backend = backend, .device = shared_device(world.rank()), .timeout = 20s, .tree_order = tree_order});
}

struct Transport {
  BackendKind backend;
  int ranks;
  bool tree_order = false;
};
void PrintTo(const Transport& t, std::ostream* out) {
  *out << kBackends.of(t.backend) << t.ranks << (t.tree_order ? "tree" : "");
}

class Staged : public testing::TestWithParam<Transport> {
 protected:
  void SetUp() override { on_device({}); }
};

TEST_P(Staged, CallsGiveTheRightValues) {
  const Transport& transport = GetParam();
  said_of_device();
  test::run_ranks(transport.ranks, [&](World world) {
    const Group group = group_of(world, transport.backend, transport.tree_order);
    EXPECT_EQ(group.backend(), kBackends.of(transport.backend));
    const CollectiveFindings found = check_collectives(group, shared_device(world.rank()));
    EXPECT_EQ(found.wrong, "");
    const at::Tensor zeros = group.allocate(8, at::kFloat, "buffer");
    EXPECT_EQ(zeros.device(), shared_device(world.rank()));
    EXPECT_EQ(zeros.sum().item<float>(), 0.0F);
    group.barrier("end").wait();
    group.throw_if_failed();
  });
  EXPECT_EQ(said_of_device(), "");
}

INSTANTIATE_TEST_SUITE_P(Table, Staged,
                         testing::Values(Transport{BackendKind::shm, 2}, Transport{BackendKind::shm, 4},
                                         Transport{BackendKind::gloo, 2}, Transport{BackendKind::gloo, 4},
                                         Transport{BackendKind::gloo, 2, true}),
                         testing::PrintToStringParamName());

struct Row {
  const char* name;
  int ranks;
  const char* job;
  BackendKind backend;
  std::function<void(Strategy&)> change;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {"dp", 2, "cnn", BackendKind::shm, [](Strategy&) {}},
      {"zero_3_offload", 4, "gpt", BackendKind::shm,
       [](Strategy& s) {
         s.spread = Spread::shard;
         s.layout.shard_level = ShardLevel::parameters;
         s.layout.recompute_every = 1;
         s.layout.recompute_parts = false;
         s.layout.offload_optimizer = s.layout.offload_parameters = s.layout.offload_activations = Offload::host;
       }},
      {"zb_v", 4, "deep_gpt", BackendKind::shm,
       [](Strategy& s) {
         s.pp = 4;
         s.layout.pipeline.schedule = "zb-v";
       }},
      {"tp_sequence", 2, "split_llama", BackendKind::shm,
       [](Strategy& s) {
         s.micro_batch = 4;
         s.tp = 2;
         s.layout.sequence_parallel = true;
       }},
      {"cp_ring", 2, "split_gpt", BackendKind::shm,
       [](Strategy& s) {
         s.micro_batch = 4;
         s.cp = 2;
       }},
      {"pp_shard_gloo", 4, "deep_gpt", BackendKind::gloo,
       [](Strategy& s) {
         s.pp = 2;
         s.spread = Spread::shard;
         s.layout.shard_level = ShardLevel::gradients;
       }},
  };
  return all;
}

Strategy strategy_of(const Row& row) {
  Strategy strategy{.micro_batch = 1, .slots = 4, .clip = 0.05};
  row.change(strategy);
  return strategy;
}

Strategy staged(const Row& row) {
  Strategy strategy = on_device(strategy_of(row));
  strategy.backend = row.backend;
  strategy.device = shared_device;
  return strategy;
}

class StagedTraining : public testing::TestWithParam<Row> {};

TEST_P(StagedTraining, HasTheBitsOfTheCpu) {
  const Row& row = GetParam();
  said_of_device();
  Strategy on_cpu = strategy_of(row);
  on_cpu.operators = true;
  const Trained there = train_ranks(job(row.job), staged(row), row.ranks, AdamW{}, 2);
  EXPECT_EQ(said_of_device(), "");
  expect_equal(there, train_ranks(job(row.job), on_cpu, row.ranks, AdamW{}, 2), "the CPU");
}

INSTANTIATE_TEST_SUITE_P(Table, StagedTraining, testing::ValuesIn(rows()), testing::PrintToStringParamName());

/// One call between two ranks, and work with its result; what was said, and thrown.
std::string make_call(bool is_message) {
  std::string said;
  try {
    test::run_ranks(2, [&](World world) {
      const Group group = group_of(world, BackendKind::shm);
      const at::Tensor x = at::full({8}, 1.0F, at::TensorOptions(shared_device(world.rank())));
      Work work;
      if (!is_message) work = group.all_reduce(x, ReduceOp::sum, "sum");
      if (is_message) work = world.rank() == 0 ? group.send(x, 1, "message") : group.receive(x, 0, "message");
      work.wait();
      x.add_(1.0F);
    });
  } catch (const std::exception& error) {
    said = error.what();
  }
  return said + said_of_device();
}

class StagedOrder : public testing::TestWithParam<std::tuple<bool, int>> {};

TEST_P(StagedOrder, EachWaitThatIsLeftOutIsFound) {
  using checked_device::Ordering;
  on_device({});
  const auto [is_message, device] = GetParam();
  const auto count = [device = device](Ordering kind) { return checked_device::orderings(kind, device); };
  const uint64_t before = count(Ordering::wait);
  ASSERT_EQ(make_call(is_message), "");
  const uint64_t made = count(Ordering::wait) - before;
  ASSERT_GT(made, 0U);
  checked_device::set_throws(false);
  for (uint64_t first = 0; first < made; ++first) {
    std::string said;
    // The group's thread may have waited for the copy of what is sent before the sender changes it, which is order too.
    for (int attempt = 0; attempt < 50 && said.empty(); ++attempt) {
      checked_device::drop_orderings(Ordering::wait, device, first, 1);
      said = make_call(is_message);
    }
    EXPECT_NE(said, "") << "wait " << first << " of " << made;
  }
  checked_device::drop_orderings(Ordering::wait, device, 0, 0);
  checked_device::set_throws(true);
}

INSTANTIATE_TEST_SUITE_P(Calls, StagedOrder, testing::Combine(testing::Bool(), testing::Values(0, 1)));

/// Also of the host, for input on its way to the back end there.
TEST(StagedOrderDeath, TheHostWaitsForInput) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  on_device({});
  const auto call_without = [] {
    checked_device::drop_orderings(checked_device::Ordering::synchronise, 0, 0, 1);
    make_call(/*is_message=*/true);
  };
  EXPECT_DEATH(call_without(), "the host touches .* pinned memory");
}

/// A rank that leaves with an error is named by the others, and waits for none of them.
TEST(StagedFailures, ARankThatLeavesHoldsUpNobody) {
  on_device({});
  for (const BackendKind backend : {BackendKind::shm, BackendKind::gloo}) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::string> errors(2);
    test::run_ranks(2, [&](World world) {
      try {
        const Group group = group_of(world, backend);
        const at::Tensor x = at::full({8}, 1.0F, at::TensorOptions(shared_device(world.rank())));
        Work work;
        if (world.rank() == 0) work = group.all_reduce(x, ReduceOp::sum, "sum");  // under way in the group's thread
        if (world.rank() == 0) throw std::runtime_error("out of luck");
        group.receive(x, 0, "message").wait();
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(world.rank())] = error.what();
      }
    });
    EXPECT_EQ(errors[0], "out of luck");
    EXPECT_NE(errors[1], "") << kBackends.of(backend);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s) << kBackends.of(backend) << ": " << errors[1];
  }
}

TEST(StagedFailures, DifferentCallsAreNamedOnAllRanks) {
  on_device({});
  for (const BackendKind backend : {BackendKind::shm, BackendKind::gloo}) {
    test::run_ranks(2, [&](World world) {
      const Group group = group_of(world, backend);
      const at::Tensor x = at::full({8 + world.rank()}, 1.0F, at::TensorOptions(shared_device(world.rank())));
      std::string error = "none";
      try {
        group.all_reduce(x, ReduceOp::sum, "gradients").wait();
      } catch (const CommError& thrown) {
        error = thrown.what();
      }
      EXPECT_NE(error.find("8 float32"), std::string::npos) << error;
      EXPECT_NE(error.find("9 float32"), std::string::npos) << error;
      EXPECT_THROW(group.throw_if_failed(), CommError);
      EXPECT_THROW(group.barrier("later"), CommError);
    });
  }
}

/// Messages of as many bytes but of different types; a stream may go on before they are compared, a step may not.
TEST(StagedFailures, SettlingFindsMessagesThatDiffer) {
  on_device({});
  for (const BackendKind backend : {BackendKind::shm, BackendKind::automatic}) {
    test::run_ranks(2, [&](World world) {
      const Group group = group_of(world, backend);
      const at::ScalarType dtype = world.rank() == 0 ? at::kFloat : at::kInt;
      const at::Tensor x = at::zeros({300'000}, at::TensorOptions(shared_device(world.rank())).dtype(dtype));
      std::string error;
      try {
        Work work = world.rank() == 0 ? group.send(x, 1, "message") : group.receive(x, 0, "message");
        work.wait();
        group.settle();
      } catch (const CommError& thrown) {
        error = thrown.what();
      }
      if (world.rank() == 0 && backend == BackendKind::automatic) return;  // its receiver compares it
      EXPECT_NE(error.find("300000 float32"), std::string::npos) << kBackends.of(backend) << ", rank " << world.rank() << error;
    });
    said_of_device();
  }
}

TEST(StagedFailures, AllocationsOfDifferentSizesAreNamed) {
  on_device({});
  test::run_ranks(2, [&](World world) {
    const Group group = group_of(world, BackendKind::shm);
    try {
      group.allocate(8 + world.rank(), at::kFloat, "gradients");
      ADD_FAILURE() << "nothing was thrown";
    } catch (const CommError& error) {
      EXPECT_NE(std::string(error.what()).find("gradients, 9 float32"), std::string::npos) << error.what();
    }
  });
}

TEST(StagedBarrier, ABarrierWaitsForAllRanks) {
  on_device({});
  std::atomic<bool> arrived = false;
  test::run_ranks(2, [&](World world) {
    const Group group = group_of(world, BackendKind::shm);
    if (world.rank() == 1) {
      std::this_thread::sleep_for(100ms);
      arrived = true;
    }
    group.barrier("all").wait();
    EXPECT_TRUE(arrived);
  });
}

TEST(StagedFailures, ATensorOfAnotherDeviceIsRefused) {
  on_device({});
  test::run_ranks(2, [&](World world) {
    const Group group = group_of(world, BackendKind::shm);
    EXPECT_THROW(group.all_reduce(at::full({8}, 1.0F), ReduceOp::sum, "on the CPU"), InputError);
  });
}

}  // namespace
}  // namespace weft::staged_test
