#include "weft/comm/mesh.h"

#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <set>
#include <sstream>

#include "tests/comm/reference.h"
#include "tests/support/run_processes.h"
#include "tests/support/run_ranks.h"
#include "weft/base/error.h"
#include "weft/comm/call/backend.h"
#include "weft/comm/shm/shm_backend.h"

namespace weft {
namespace {

using Ranks = std::vector<int>;

TEST(Mesh, AxesOfEveryRank) {
  const auto worlds = World::threads(12);
  for (int rank = 0; rank < 12; ++rank) {
    const Mesh mesh(worlds[rank], {{"pp", 2}, {"dp", 3}, {"tp", 2}});
    const int pp = rank / 6, dp = rank / 2 % 3, tp = rank % 2;
    EXPECT_EQ(mesh.coordinate("pp"), pp);
    EXPECT_EQ(mesh.coordinate("dp"), dp);
    EXPECT_EQ(mesh.coordinate("tp"), tp);
    EXPECT_EQ(mesh.coordinate("cp"), 0);
    EXPECT_EQ(mesh.size("cp"), 1);
    EXPECT_EQ(mesh.axis("tp").ranks, (Ranks{pp * 6 + dp * 2, pp * 6 + dp * 2 + 1}));
    EXPECT_EQ(mesh.axis("dp").ranks, (Ranks{pp * 6 + tp, pp * 6 + 2 + tp, pp * 6 + 4 + tp}));
    EXPECT_EQ(mesh.axis("pp").ranks, (Ranks{dp * 2 + tp, 6 + dp * 2 + tp}));
    EXPECT_EQ(mesh.axis("cp").ranks, (Ranks{rank}));
    const Axis joined = mesh.join({"pp", "tp"});
    EXPECT_EQ(joined.name, "pp+tp");
    EXPECT_EQ(joined.ranks, (Ranks{dp * 2, dp * 2 + 1, 6 + dp * 2, 6 + dp * 2 + 1}));
    EXPECT_EQ(joined.ranks[joined.index], rank);
    EXPECT_EQ(mesh.join({"pp", "dp", "tp"}).size(), 12);
  }
}

TEST(Mesh, SizesMustMultiplyToTheWorld) {
  const World world = World::threads(4)[0];
  try {
    Mesh(world, {{"dp", 2}, {"tp", 3}});
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "mesh dp=2 x tp=3 has 6 ranks but the world has 4: change an axis or the number of ranks");
  }
  EXPECT_THROW(Mesh(world, {{"dp", 0}}), InputError);
  EXPECT_THROW(Mesh(world, {{"dp", 2}, {"dp", 2}}), InputError);
}

struct Shape {
  int dp;
  int tp;
};

class MeshGroups : public testing::TestWithParam<Shape> {};

// The sum of the ranks' numbers over an axis shows which ranks were on it.
TEST_P(MeshGroups, SumOverTheirOwnRanks) {
  const Shape shape = GetParam();
  for (BackendKind backend : {BackendKind::automatic, BackendKind::gloo}) {
    test::run_ranks(shape.dp * shape.tp, [&](World world) {
      const Mesh mesh(world, {{"dp", shape.dp}, {"tp", shape.tp}});
      for (const Axis& axis : {mesh.axis("tp"), mesh.axis("dp"), mesh.join({"dp", "tp"}), mesh.axis("pp")}) {
        const Group group = mesh.group(axis, {.backend = backend});
        EXPECT_EQ(group.size(), axis.size());
        EXPECT_EQ(group.rank(), axis.index);
        EXPECT_EQ(group.backend(), axis.size() == 1 ? "identity" : backend == BackendKind::gloo ? "gloo" : "shm");
        double expected = 0;
        for (int rank : axis.ranks) expected += rank;
        const at::Tensor sum = at::full({3}, world.rank(), at::kDouble);
        group.all_reduce(sum, ReduceOp::sum, "ranks").wait();
        EXPECT_EQ(sum[2].item<double>(), expected);
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Comm, MeshGroups, testing::Values(Shape{1, 1}, Shape{2, 2}, Shape{4, 1}, Shape{1, 4}, Shape{3, 2}),
                         [](const auto& info) { return fmt::format("{}x{}", info.param.dp, info.param.tp); });

TEST(Mesh, GroupsCreatedInDifferentOrderAreAnError) {
  try {
    test::run_ranks(4, [](World world) {
      const Mesh mesh(world, {{"dp", 2}, {"tp", 2}});
      mesh.group(mesh.axis(world.rank() == 3 ? "tp" : "dp"));
      const Group group = mesh.group(mesh.join({"dp", "tp"}));
    });
    FAIL() << "no error";
  } catch (const test::RankError& error) {
    EXPECT_NE(std::string(error.what()).find("different order"), std::string::npos) << error.what();
  }
}

// Rank 0 may have left because of the failure before a slower rank opens its memory.
TEST(Mesh, ALateRankGetsTheEarlierFailure) {
  struct Case {
    std::string announced;
    std::string expected;
  };
  for (const Case& test :
       {Case{"groups differ", "groups differ"},
        Case{"", "rank 1 (dp 1 of 2) cannot join rank 0 (dp 0 of 2): shared memory: cannot open a peer's memory "}}) {
    const std::vector<World> worlds = World::threads(2);
    Store store = worlds[1].next_group_store();
    store.set("memory", "1 999999");
    if (!test.announced.empty()) worlds[0].next_group_store().announce(Error(test.announced));
    const Mesh mesh(worlds[1], {{"dp", 2}});
    try {
      make_shm_backend({mesh.axis("dp"), {worlds[1].host(0), worlds[1].host(1)}, store, {}});
      FAIL() << "no error";
    } catch (const CommError& error) {
      EXPECT_TRUE(std::string_view(error.what()).starts_with(test.expected)) << error.what();
    }
  }
}

TEST(Group, CountsTraffic) {
  test::run_ranks(4, [](World world) {
    const Mesh mesh(world, {{"dp", 4}});
    const Group group = mesh.group(mesh.axis("dp"));
    const at::Tensor tensor = at::full({1000}, 1.0f);
    group.all_reduce(tensor, ReduceOp::sum, "a").wait();
    EXPECT_EQ(group.traffic().bytes, 6000);
    group.reduce_scatter(at::full({250}, 0.0f), tensor, ReduceOp::sum, "b").wait();
    EXPECT_EQ(group.traffic().bytes, 9000);
    group.broadcast(tensor, 2, "c").wait();
    EXPECT_EQ(group.traffic().bytes, world.rank() == 2 ? 13000 : 9000);
    EXPECT_EQ(group.traffic().calls, 3);
    EXPECT_GT(group.traffic().seconds, 0.0);
  });
}

TEST(Group, RefusesUnsuitableTensors) {
  test::run_ranks(2, [](World world) {
    const Mesh mesh(world, {{"dp", 2}});
    const Group group = mesh.group(mesh.axis("dp"));
    const at::Tensor tensor = at::full({4, 4}, 1.0f);
    EXPECT_THROW(group.all_reduce(tensor.t(), ReduceOp::sum, "transposed"), InputError);
    EXPECT_THROW(group.all_reduce(at::full({4}, true), ReduceOp::sum, "bools"), InputError);
    EXPECT_THROW(group.reduce_scatter(at::full({7}, 1.0f), tensor, ReduceOp::sum, "size"), InputError);
    EXPECT_THROW(group.all_gather(tensor, at::full({8}, 1.0, at::kDouble), "type"), InputError);
    EXPECT_THROW(group.broadcast(tensor, 2, "root"), InputError);
    EXPECT_THROW(group.send(tensor, world.rank(), "self"), InputError);
    EXPECT_THROW(group.all_to_all(tensor, tensor, "overlap"), InputError);
    group.barrier("still in step").wait();
  });
}

std::string bits(const at::Tensor& tensor) {
  uint64_t hash = 1469598103934665603u;
  const auto* data = static_cast<const unsigned char*>(tensor.const_data_ptr());
  for (size_t k = 0; k < tensor.nbytes(); ++k) hash = (hash ^ data[k]) * 1099511628211u;
  return fmt::format("{:016x}", hash);
}

std::string summed_bits(const World& world, BackendKind backend) {
  const Mesh mesh(world, {{"dp", world.size()}});
  const Group group = mesh.group(mesh.axis("dp"), {.backend = backend, .tree_order = true});
  const at::Tensor tensor = test::make_input(world.rank(), 300001, at::kFloat);
  group.all_reduce(tensor, ReduceOp::sum, "gradients").wait();
  return bits(tensor);
}

TEST(Processes, SumTheSameBitsAsThreadsOnShmAndGloo) {
  for (BackendKind backend : {BackendKind::shm, BackendKind::gloo}) {
    const auto results = test::run_processes(3, [&](World world) { return summed_bits(world, backend); },
                                             {.label = backend == BackendKind::shm ? "shm" : "gloo"});
    std::string threads;
    test::run_ranks(3, [&](World world) {
      const std::string own = summed_bits(world, BackendKind::shm);
      if (world.rank() == 0) threads = own;
    });
    for (const auto& result : results) EXPECT_EQ(result.output, threads) << result.error;
  }
}

/// Ports of this process's listening sockets.
std::vector<int> listening_ports() {
  std::vector<int> ports;
  for (int fd = 0; fd < 1024; ++fd) {
    int listens = 0;
    sockaddr_in6 address{};  // its port is at the same offset as IPv4's
    socklen_t length = sizeof listens, address_length = sizeof address;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0) continue;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &address_length) != 0) continue;
    if (address.sin6_family == AF_INET || address.sin6_family == AF_INET6) ports.push_back(ntohs(address.sin6_port));
  }
  return ports;
}

// Includes the store's port, which rank 0 serves at a named port.
TEST(Processes, GlooListensAtThePortsThatAreOpen) {
  constexpr int kFirst = 21500, kLast = 21999;  // other processes may hold some ports
  const std::string open = fmt::format("{}-{}", kFirst, kLast);
  const auto results = test::run_processes(3,
                                           [&](World world) {
                                             setenv("WEFT_PORTS", open.c_str(), 1);  // in the rank's own process
                                             const Mesh mesh(world, {{"dp", 3}});
                                             const Group one = mesh.group(mesh.axis("dp"), {.backend = BackendKind::gloo}),
                                                         two = mesh.group(mesh.axis("dp"), {.backend = BackendKind::gloo});
                                             // No rank leaves while another still connects.
                                             two.all_reduce(at::ones({1}), ReduceOp::sum, "ones").wait();
                                             return fmt::format("{}", fmt::join(listening_ports(), " "));
                                           },
                                           {.hosts = {"a", "b", "c"}});
  std::set<int> different;
  for (const auto& result : results) {
    std::istringstream ports(result.output);
    int number = 0;
    for (int port = 0; ports >> port; ++number) {
      EXPECT_TRUE(port >= kFirst && port <= kLast && different.insert(port).second) << result.output;
    }
    EXPECT_GE(number, 2) << result.error;
  }
}

TEST(Processes, HostsDecideTheBackend) {
  const auto results = test::run_processes(4,
                                           [&](World world) -> std::string {
                                             const Mesh mesh(world, {{"dp", 2}, {"tp", 2}});
                                             const Group inside = mesh.group(mesh.axis("tp")),
                                                         across = mesh.group(mesh.axis("dp"));
                                             const at::Tensor sum = at::full({5}, world.rank(), at::kLong);
                                             inside.all_reduce(sum, ReduceOp::sum, "inside").wait();
                                             across.all_reduce(sum, ReduceOp::sum, "across").wait();
                                             return fmt::format("{} {} {} {}/{}", inside.backend(), across.backend(),
                                                                sum[0].item<int64_t>(), world.local_rank(), world.local_size());
                                           },
                                           {.hosts = {"a", "a", "b", "b"}});
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(results[rank].output, fmt::format("shm gloo 6 {}/2", rank % 2)) << results[rank].error;
  }
}

// Two hosts of two ranks: the same bits as one host of four ranks.
TEST(Processes, SeveralRanksOnSeveralHostsUseTwoLevels) {
  const auto results =
      test::run_processes(4,
                          [&](World world) -> std::string {
                            const Mesh mesh(world, {{"dp", 2}, {"tp", 2}});
                            const Group group = mesh.group(mesh.join({"dp", "tp"}), {.tree_order = true});
                            for (int64_t numel : {0, 1, 7, 100003}) {
                              std::vector<at::Tensor> inputs;
                              for (int rank = 0; rank < 4; ++rank) inputs.push_back(test::make_input(rank, numel, at::kFloat));
                              const at::Tensor tensor = group.allocate(numel, at::kFloat, "gradients");
                              tensor.copy_(inputs[world.rank()]);
                              group.all_reduce(tensor, ReduceOp::sum, "gradients").wait();
                              const at::Tensor expected = test::reduce_all(inputs, ReduceOp::sum);
                              if (!test::same_bits(tensor, expected)) return fmt::format("all_reduce of {} differs", numel);
                              tensor.zero_();
                              group.all_gather(tensor, test::shard_of(expected, 4, world.rank()).clone(), "weights").wait();
                              if (!test::same_bits(tensor, expected)) return fmt::format("all_gather of {} differs", numel);
                            }
                            return std::string(group.backend());
                          },
                          {.hosts = {"a", "a", "b", "b"}});
  for (const auto& result : results) EXPECT_EQ(result.output, "shm+gloo") << result.error;
}

class Environment : public testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
      ::unsetenv(name);
  }
  static std::string error() {
    try {
      World::from_environment();
    } catch (const InputError& thrown) {
      return thrown.what();
    }
    return "";
  }
};

TEST_F(Environment, NothingSetIsOneRank) { EXPECT_EQ(World::from_environment().size(), 1); }

TEST_F(Environment, HalfSetOrContradictoryIsAnError) {
  ::setenv("RANK", "0", 1);
  EXPECT_NE(error().find("WORLD_SIZE is not"), std::string::npos) << error();
  ::setenv("WORLD_SIZE", "0", 1);
  EXPECT_NE(error().find("below"), std::string::npos) << error();
  ::setenv("WORLD_SIZE", "2", 1);
  EXPECT_NE(error().find("MASTER_ADDR"), std::string::npos) << error();
  ::setenv("RANK", "x", 1);
  EXPECT_NE(error().find("RANK='x' is not a whole number of at least 0"), std::string::npos) << error();
}

}  // namespace
}  // namespace weft
