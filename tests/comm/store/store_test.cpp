// The ranks' store: every call ends in time, whichever process serves it.
#include "weft/comm/store/store.h"

#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <future>
#include <optional>
#include <sstream>
#include <thread>

#include "tests/support/environment_variables.h"
#include "tests/support/run_processes.h"
#include "tests/support/run_ranks.h"
#include "tests/support/wait_until.h"
#include "weft/base/error.h"
#include "weft/base/loopback.h"
#include "weft/comm/mesh.h"
#include "weft/comm/store/call_thread.h"
#include "weft/comm/store/store_connection.h"
#include "weft/comm/store/store_errors.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

TEST(CallThread, AbandonsACallThatDoesNotEnd) {
  const auto gate = std::make_shared<std::promise<void>>();
  const auto begun = std::make_shared<std::atomic<int>>(0);
  const auto start = Clock::now();
  {
    CallThread thread;
    EXPECT_TRUE(thread.run([begun] { ++*begun; }, milliseconds(10000)));
    EXPECT_THROW(thread.run([] { throw InputError("no"); }, milliseconds(10000)), InputError);
    EXPECT_FALSE(thread.run([begun, gate] { ++*begun, gate->get_future().wait(); }, milliseconds(500)));
    EXPECT_FALSE(thread.run([begun] { ++*begun; }, milliseconds(50))) << "it is queued behind the other";
  }
  EXPECT_LT(seconds_since(start), 5.0);
  EXPECT_EQ(*begun, 2);
  gate->set_value();
  EXPECT_FALSE(wait_until([&] { return *begun == 3; }, 0.1)) << "it was abandoned";
}

using test::EnvironmentVariables;

TEST(Store, AStoreThatDoesNotAnswerIsAnErrorInTime) {
  const FileDescriptor silent = listen_on_loopback();  // the kernel accepts, but no process does
  struct Case {
    int port;
    std::string problem;
  };
  for (const Case& test : {Case{port_of(silent), "no answer"}, Case{free_loopback_port(), "Connection refused"}}) {
    const EnvironmentVariables environment(
        {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", std::to_string(test.port)}});
    const auto start = Clock::now();
    try {
      World::from_environment(milliseconds(300));
      FAIL() << "no error";
    } catch (const CommError& error) {
      EXPECT_EQ(error.what(),
                fmt::format("rank 1 of 2: cannot reach the store at 127.0.0.1:{}, which rank 0 serves, within 0.3 s: {}",
                            test.port, test.problem));
    }
    EXPECT_LT(seconds_since(start), 10.0);
  }
}

char state_of(int pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(in, line);
  const size_t name_end = line.rfind(')');
  return name_end == std::string::npos ? '?' : line[name_end + 2];
}

/// Runs on two ranks; rank 0 serves the store and is stopped. Returns the error of `action` on rank 1, and a late time.
std::string with_rank_zero_stopped(World world, const std::function<void(const World&)>& prepare,
                                   const std::function<void(const World&)>& action) {
  prepare(world);
  if (world.rank() == 0) {
    world.store().set("pid", std::to_string(::getpid()));
    world.store().get("has it", milliseconds(20000), "the other");
    ::raise(SIGSTOP);
    return "";
  }
  const int pid = std::stoi(world.store().get("pid", milliseconds(20000), "the other's process"));
  world.store().set("has it", "");
  if (!wait_until([&] { return state_of(pid) == 'T'; }, 20.0)) return "rank 0 does not stop";
  const auto start = Clock::now();
  std::string text = "no error";
  try {
    action(world);
  } catch (const CommError& error) {
    text = error.what();
  }
  const double seconds = seconds_since(start);
  ::kill(pid, SIGKILL);
  return fmt::format("{}{}", seconds < 10.0 ? "" : fmt::format("only after {:.1f} s: ", seconds), text);
}

TEST(Processes, AStoppedRankZeroThatServesTheStoreBlocksNoRank) {
  struct Case {
    std::string label;
    std::function<void(const World&)> prepare, action;
    std::string expected;
  };
  const auto group = [](const World& world, BackendKind backend) {
    return Mesh(world, {{"dp", 2}})
        .group(Axis{"dp", {0, 1}, world.rank()}, {.backend = backend, .timeout = milliseconds(1000)});
  };
  std::optional<Group> made;
  const Case cases[] = {
      {"shm", [](const World&) {}, [&](const World& world) { group(world, BackendKind::shm); }, "rank 0: its process "},
      {"gloo", [](const World&) {}, [&](const World& world) { group(world, BackendKind::gloo); }, "rank 0: its process "},
      {"in a call", [&](const World& world) { made = group(world, BackendKind::gloo); },
       [&](const World&) { made->all_reduce(at::full({3}, 1.0f), ReduceOp::sum, "x").wait(); },
       "rank 0 (dp 0 of 2): its process "},
  };
  for (const Case& test : cases) {
    const auto results =
        test::run_processes(2, [&](const World& world) { return with_rank_zero_stopped(world, test.prepare, test.action); },
                            {.label = test.label, .rank_zero_serves = true});
    EXPECT_EQ(results[1].output.rfind(test.expected, 0), 0u) << test.label << ": " << results[1].output << results[1].error;
  }
}

/// Addresses that listen on a port: "0100007F" and the like, from both tables of the kernel.
std::vector<std::string> listening_at(int port) {
  std::vector<std::string> found;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream in(table);
    for (std::string line; std::getline(in, line);) {
      std::istringstream fields(line);
      std::string number, local, remote, state;
      fields >> number >> local >> remote >> state;
      const size_t colon = local.find(':');
      if (state == "0A" && local.substr(colon + 1) == fmt::format("{:04X}", port)) found.push_back(local.substr(0, colon));
    }
  }
  return found;
}

TEST(Processes, RankZeroServesOnTheLoopbackInterfaceOnlyWhereAllRanksAreLocal) {
  const auto results = test::run_processes(2,
                                           [](const World& world) {
                                             const int port = std::atoi(std::getenv("MASTER_PORT"));
                                             const std::string seen = fmt::format("{}", fmt::join(listening_at(port), " "));
                                             world.store().set(fmt::format("seen/{}", world.rank()), "");
                                             if (world.rank() == 0) {  // it serves, so it stays until the other has checked
                                               world.store().get("seen/1", milliseconds(20000), "rank 1");
                                             }
                                             return seen;
                                           },
                                           {.rank_zero_serves = true});
  for (const auto& result : results) EXPECT_EQ(result.output, "0100007F") << result.error;
}

/// Trips to the store for creating a group, for the last rank to arrive: ranks that wait long make more.
int trips_for_group(int size, BackendKind backend) {
  const auto results = test::run_processes(
      size,
      [backend](const World& world) {
        const Mesh mesh(world, {{"dp", world.size()}});
        StoreConnection& connection = world.store().connection();
        world.store().gather({"begin together", world.rank(), world.size()}, milliseconds(20000));
        const int64_t before = connection.trips();
        const Group group = mesh.group(mesh.axis("dp"), {.backend = backend, .timeout = milliseconds(20000)});
        const int64_t trips = connection.trips() - before;
        world.store().gather({"end together", world.rank(), world.size()}, milliseconds(20000));
        return std::to_string(trips);
      },
      {.label = fmt::format("{} of {}", static_cast<int>(backend), size)});
  std::vector<int> trips;
  for (const auto& result : results) {
    EXPECT_EQ(result.error, "");
    trips.push_back(std::atoi(result.output.c_str()));
  }
  return *std::min_element(trips.begin(), trips.end());
}

TEST(Processes, TripsForAGroupDoNotGrowWithTheNumberOfRanks) {
  for (const int size : {2, 4}) {
    // To agree on the group, meet, check for a failure; and for the memory, or the addresses: its own, and all ranks'.
    EXPECT_EQ(trips_for_group(size, BackendKind::shm), 4);
    EXPECT_EQ(trips_for_group(size, BackendKind::gloo), 5);
  }
}

// The failure of one attempt is reported to every rank once; the next attempt ignores it.
TEST(World, GroupsCanBeCreatedAfterAFailedAttempt) {
  for (const BackendKind backend : {BackendKind::shm, BackendKind::gloo}) {
    test::run_ranks(4, [&](const World& world) {
      const Mesh mesh(world, {{"dp", 2}, {"tp", 2}});
      for (int attempt = 0; attempt < 3; ++attempt) {
        try {
          const BackendKind other = backend == BackendKind::shm ? BackendKind::gloo : BackendKind::shm;
          mesh.group(mesh.join({"dp", "tp"}), {.backend = world.rank() == 3 ? other : backend});
          ADD_FAILURE() << "no error";
        } catch (const CommError& error) {
          EXPECT_NE(std::string(error.what()).find("different order"), std::string::npos) << error.what();
        }
      }
      const at::Tensor sum = at::full({3}, world.rank(), at::kDouble);
      mesh.group(mesh.join({"dp", "tp"}), {.backend = backend}).all_reduce(sum, ReduceOp::sum, "ranks").wait();
      EXPECT_EQ(sum[0].item<double>(), 6.0);
    });
  }
}

// It learns once that the others have given up, and then joins their next attempt.
TEST(World, ALateRankCreatesTheNextGroup) {
  test::run_ranks(3, [&](const World& world) {
    const Mesh mesh(world, {{"dp", 3}});
    if (world.rank() == 1) std::this_thread::sleep_for(milliseconds(500));
    try {
      mesh.group(mesh.axis("dp"), {.timeout = milliseconds(world.rank() == 1 ? 20000 : 200)});
      ADD_FAILURE() << "no error";
    } catch (const LostRank& error) {
      EXPECT_EQ(error.rank(), 1) << error.what();
    }
    const at::Tensor sum = at::full({3}, world.rank(), at::kDouble);
    mesh.group(mesh.axis("dp"), {.timeout = milliseconds(20000)}).all_reduce(sum, ReduceOp::sum, "ranks").wait();
    EXPECT_EQ(sum[0].item<double>(), 3.0);
  });
}

}  // namespace
}  // namespace weft
