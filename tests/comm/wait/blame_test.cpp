// Ranks that sleep, are stopped or differ, among overlapping groups: every other rank names the rank at the end of all waits,
// by its world rank.
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "tests/support/run_processes.h"
#include "tests/support/run_ranks.h"
#include "weft/comm/mesh.h"
#include "weft/comm/store/store.h"
#include "weft/comm/store/store_errors.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

struct Arrangement {
  const char* name;
  std::vector<AxisSize> axes;
  int culprit;
};

const Arrangement kArrangements[] = {
    {"hybrid", {{"dp", 2}, {"shard", 2}}, 3},
    {"pipeline x shard", {{"pp", 2}, {"shard", 2}}, 0},
    {"pipeline", {{"pp", 4}}, 2},
};

struct Step {
  explicit Step(const Mesh& mesh, const GroupOptions& options) {
    for (const AxisSize& axis : mesh.axes()) groups.push_back(mesh.group(mesh.axis(axis.name), options));
  }
  /// Messages forth and back on the first axis if it is a pipeline, sums on the others.
  void operator()() const {
    for (const Group& group : groups) {
      if (group.name() == "pp") {
        pass(group);
      } else {
        group.all_reduce(at::ones({64}), ReduceOp::sum, "sums").wait();
      }
    }
  }
  static void pass(const Group& group) {
    const int me = group.rank(), last = group.size() - 1;
    const at::Tensor tensor = at::ones({64});
    if (me > 0) group.receive(tensor, me - 1, "activation").wait();
    if (me < last) group.send(tensor, me + 1, "activation").wait();
    if (me < last) group.receive(tensor, me + 1, "gradient").wait();
    if (me > 0) group.send(tensor, me - 1, "gradient").wait();
  }
  std::vector<Group> groups;
};

/// "3 rank 3 (shard 1 of 2): ...": the rank in the error, and its text.
std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const LostRank& error) {
    return fmt::format("{} {}", error.rank(), error.what());
  } catch (const std::exception& error) {
    return fmt::format("nobody {}", error.what());
  }
  return "no error";
}

void expect_names(const std::string& error, int culprit) {
  EXPECT_EQ(error.rfind(fmt::format("{0} rank {0} (", culprit), 0), 0u) << error;
}

TEST(Blame, ARankThatSleepsIsNamedByAll) {
  for (const BackendKind backend : {BackendKind::shm, BackendKind::gloo}) {
    for (const Arrangement& a : kArrangements) {
      SCOPED_TRACE(fmt::format("{} on {}", a.name, backend == BackendKind::shm ? "shm" : "Gloo"));
      std::vector<std::string> errors(4);
      std::atomic<int> ended = 0;
      test::run_ranks(4, [&](World world) {
        const Step step(Mesh(world, a.axes), {.backend = backend, .timeout = 700ms});
        for (int i = 0; i < 3; ++i) step();
        while (world.rank() == a.culprit && ended < 3) std::this_thread::sleep_for(5ms);
        if (world.rank() == a.culprit) return;
        errors[world.rank()] = error_of([&] {
          while (true) step();
        });
        ++ended;
      });
      for (int rank = 0; rank < 4; ++rank) {
        if (rank != a.culprit) expect_names(errors[rank], a.culprit);
      }
    }
  }
}

// The first rank is busy elsewhere, and has not come either.
TEST(Blame, ARankThatLeavesIsNamedNotOneThatIsBusy) {
  for (const BackendKind backend : {BackendKind::shm, BackendKind::gloo}) {
    std::vector<std::string> errors(4);
    std::atomic<int> ended = 0;
    test::run_ranks(4, [&](World world) {
      const Mesh mesh(world, {{"dp", 4}});
      const Group group = mesh.group(mesh.axis("dp"), {.backend = backend, .timeout = 20s});
      group.barrier("connected").wait();
      if (world.rank() == 3) return;
      errors[world.rank()] = error_of([&] {
        while (world.rank() == 0 && ended < 2) std::this_thread::sleep_for(5ms);
        group.all_reduce(at::ones({64}), ReduceOp::sum, "sums").wait();
      });
      ++ended;
    });
    for (const int rank : {0, 1, 2}) EXPECT_EQ(errors[rank].rfind("3 rank 3", 0), 0u) << errors[rank];
  }
}

// Some ranks wait for it to join, others already for ranks in the next group.
TEST(Blame, ARankThatDoesNotJoinIsNamedByAll) {
  for (const BackendKind backend : {BackendKind::shm, BackendKind::gloo}) {
    std::vector<std::string> errors(4);
    std::atomic<int> ended = 0;
    test::run_ranks(4, [&](World world) {
      const Mesh mesh(world, {{"dp", 2}, {"shard", 2}});
      while (world.rank() == 1 && ended < 3) std::this_thread::sleep_for(5ms);
      if (world.rank() == 1) return;
      errors[world.rank()] = error_of([&] { Step(mesh, {.backend = backend, .timeout = 500ms})(); });
      ++ended;
    });
    for (const int rank : {0, 2, 3}) EXPECT_EQ(errors[rank].rfind("1 rank 1", 0), 0u) << errors[rank];
  }
}

// Stopped at an arbitrary moment, mostly during a wait, whose end it then does not see.
std::string stop_and_wait(World world, const Arrangement& a, BackendKind backend) {
  Store store = world.store();
  const Step step(Mesh(world, a.axes), {.backend = backend, .timeout = 1500ms});
  for (int i = 0; i < 20; ++i) step();
  std::thread stopper;
  if (world.rank() == a.culprit) {
    store.set("pid", std::to_string(::getpid()));
    stopper = std::thread([] {
      std::this_thread::sleep_for(20ms);
      ::kill(::getpid(), SIGSTOP);
    });
  }
  const std::string error = error_of([&] {
    while (true) step();
  });
  store.set(fmt::format("done/{}", world.rank()), "");
  // One rank kills it, once all others have reported.
  if (world.rank() == (a.culprit == 0 ? 1 : 0)) {
    for (int rank = 0; rank < world.size(); ++rank) {
      if (rank != a.culprit) store.get(fmt::format("done/{}", rank), 20000ms, "the others");
    }
    ::kill(std::stoi(store.get("pid", 1000ms, "the culprit")), SIGKILL);
  }
  if (stopper.joinable()) stopper.join();
  return error;
}

TEST(Blame, AStoppedProcessIsNamedByAll) {
  const auto expect = [](const Arrangement& a, BackendKind backend, const std::string& label) {
    const auto results =
        test::run_processes(4, [&](World world) { return stop_and_wait(world, a, backend); }, {.label = label, .timeout = 40s});
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == a.culprit) continue;
      expect_names(results[rank].output + results[rank].error, a.culprit);
      EXPECT_NE(results[rank].output.find("is stopped"), std::string::npos) << results[rank].output << results[rank].error;
    }
  };
  // Rank 0 serves the store of these ranks, so it is not the culprit.
  expect({"pipeline x shard", {{"pp", 2}, {"shard", 2}}, 3}, BackendKind::shm, "shm");
  expect({"pipeline", {{"pp", 4}}, 1}, BackendKind::gloo, "gloo");
}

// Two hosts: rows of the other host go through the store.
TEST(Blame, ARankOfAnotherHostIsNamed) {
  const auto results = test::run_processes(4,
                                           [](World world) -> std::string {
                                             Store store = world.store();
                                             const Step step(Mesh(world, {{"dp", 2}, {"shard", 2}}), {.timeout = 4s});
                                             for (int i = 0; i < 3; ++i) step();
                                             if (world.rank() == 3) {
                                               for (int rank = 0; rank < 3; ++rank)
                                                 store.get(fmt::format("done/{}", rank), 20000ms, "the others");
                                               return "slept";
                                             }
                                             const std::string error = error_of([&] {
                                               while (true) step();
                                             });
                                             store.set(fmt::format("done/{}", world.rank()), "");
                                             if (world.rank() == 0) store.get("done/2", 10000ms, "the others");
                                             return error;
                                           },
                                           {.hosts = {"a", "a", "b", "b"}});
  for (const int rank : {0, 1, 2}) {
    const std::string text = results[rank].output + results[rank].error;
    EXPECT_EQ(text.rfind("3 rank 3 (", 0), 0u) << text;
  }
}

// Ranks with incompatible options get an error in one line when the group is created.
TEST(Agreement, DifferentOptionsAreReportedImmediately) {
  struct Row {
    const char* says;
    std::function<void(GroupOptions&)> change;
  };
  const Row rows[] = {{"sums in tree order", [](GroupOptions& o) { o.tree_order = true; }},
                      {"messages of 4096 bytes", [](GroupOptions& o) { o.message_bytes = 4096; }}};
  for (const Row& row : rows) {
    for (const BackendKind backend : {BackendKind::shm, BackendKind::gloo}) {
      for (const int ranks : {2, 4}) {
        std::vector<std::string> errors(ranks);
        const auto begin = std::chrono::steady_clock::now();
        test::run_ranks(ranks, [&](World world) {
          const Mesh mesh(world, {{"dp", ranks}});
          GroupOptions options{.backend = backend, .timeout = 20s};
          if (world.rank() == ranks - 1) row.change(options);
          errors[world.rank()] = error_of([&] { mesh.group(mesh.axis("dp"), options); });
        });
        EXPECT_LT(std::chrono::steady_clock::now() - begin, 8s);
        for (const std::string& error : errors) {
          EXPECT_NE(error.find("different options"), std::string::npos) << error;
          EXPECT_NE(error.find(row.says), std::string::npos) << error;
          EXPECT_NE(error.find(fmt::format("rank {} calls", ranks - 1)), std::string::npos) << error;
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft
