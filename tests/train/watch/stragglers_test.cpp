// Stragglers are found by their own work in a step, and reported once.
#include "weft/train/watch/stragglers.h"

#include <gtest/gtest.h>

#include "tests/support/run_ranks.h"
#include "weft/comm/mesh.h"

namespace weft::stragglers_test {
namespace {

std::vector<OwnTime> computing(const std::vector<double>& milliseconds) {
  std::vector<OwnTime> times;
  for (const double ms : milliseconds) times.push_back({.data_s = 0.0, .compute_s = ms * 1e-3});
  return times;
}

TEST(Stragglers, AreThoseBehindTheOthersOfTheirClass) {
  struct Row {
    const char* what;
    std::vector<double> ms;
    std::vector<int> classes;
    std::vector<int> found;
  };
  const Row rows[] = {
      {"one of four", {20, 21, 30, 20}, {0, 0, 0, 0}, {2}},
      {"one of two", {20, 27}, {0, 0}, {1}},
      {"not quite", {20, 25}, {0, 0}, {}},
      {"too little to matter", {0.5, 1.4}, {0, 0}, {}},
      {"stages differ", {20, 21, 60, 61}, {0, 0, 1, 1}, {}},
      {"one of a stage", {20, 21, 60, 81}, {0, 0, 1, 1}, {3}},
      {"alone in its stage", {20, 60}, {0, 1}, {}},
      {"two of five", {20, 20, 20, 40, 50}, {0, 0, 0, 0, 0}, {3, 4}},
      {"nobody", {}, {}, {}},
  };
  for (const Row& row : rows) {
    std::vector<int> found;
    for (const Straggler& straggler : find_stragglers(computing(row.ms), row.classes)) found.push_back(straggler.rank);
    EXPECT_EQ(found, row.found) << row.what;
  }
}

TEST(Stragglers, AreReportedWithTheirPhase) {
  const std::vector<OwnTime> times = {{.data_s = 0.001, .compute_s = 0.026}, {.data_s = 0.015, .compute_s = 0.026}};
  const auto found = find_stragglers(times, {0, 0});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(straggler_text(found[0], "b"),
            "rank 1 on host b is behind: its steps take 1.52x the others' median (41.0 ms vs 27.0 ms), waiting for samples");
}

// Rank 2 is behind in the first window and the second, fine in the third, behind in the fourth: reported in the first and the
// fourth.
TEST(Stragglers, AreReportedOnceUntilTheyRecover) {
  const std::vector<std::string> hosts = {"a", "a", "b", "b"};
  const auto on_rank = [](World world) {
    const Mesh mesh(world, {{"dp", 4}});
    StragglerWatch watch(mesh, mesh.group(mesh.axis("dp")), at::kCPU);
    std::vector<int> printed;
    for (int window = 0; window < 4; ++window) {
      for (int step = 0; step < StragglerWatch::kWindow; ++step) {
        const bool slow = world.rank() == 2 && window != 2, outlier = world.rank() == 1 && step < 5;
        for (const std::string& line : watch.add({.data_s = 0.0, .compute_s = slow ? 0.030 : outlier ? 0.5 : 0.020}, 0.0)) {
          printed.push_back(window);
          if (line.find("rank 2 on host b is behind: its steps take 1.50x") != 0) throw std::runtime_error(line);
        }
      }
    }
    if (printed != std::vector<int>{0, 3}) throw std::runtime_error("printed " + std::to_string(printed.size()) + " times");
  };
  test::run_ranks(4, on_rank, {.hosts = hosts});
}

}  // namespace
}  // namespace weft::stragglers_test
