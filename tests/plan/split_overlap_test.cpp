// Traffic of layers split over tp, simulated with and without overlap of their products: whole sums and in chunks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "weft/plan/make_plan.h"
#include "weft/program/simulate/simulate.h"
#include "weft/recipe/read/read_recipe.h"

namespace weft::split_overlap_test {
namespace {

constexpr const char* kGpt = R"(
  model = { name = "gpt", layers = 4, heads = 4, width = 128, context = 128 }
  data = { name = "text", path = "none.txt" }
  batch = { global = 4, micro = 4 }
  run = { steps = 3 }
)";

/// A step on two ranks; the link takes about as long as the products.
Simulation step(const std::string& layout, bool overlap, double latency_s) {
  const Hardware hardware = {.name = "two",
                             .flops = 1e11,
                             .narrow_flops = 1e11,
                             .overlap = overlap,
                             .ranks_per_host = 2,
                             .intra_host = {latency_s, 2e8}};
  const Recipe recipe = parse_recipe(kGpt, "split_overlap_test.toml", {"layout.tp=2", layout});
  return simulate(*make_plan(recipe, 2).program, hardware);
}

double step_s(const std::string& layout, bool overlap, double latency_s = 0.0) {
  return step(layout, overlap, latency_s).step_s;
}

TEST(SplitOverlap, SumsOverlapProducts) {
  for (const std::string more : {"layout.sequence_parallel=false", "layout.sequence_parallel=true"}) {
    const double apart = step_s(more, false), beside = step_s(more, true);
    EXPECT_LT(beside, 0.95 * apart) << more;
    EXPECT_GT(beside, 0.5 * apart) << more;
  }
}

/// Both ranks are identical, so neither waits for the other: time without compute is exposed.
TEST(SplitOverlap, TrafficWithoutOverlapIsExposed) {
  for (const bool overlap : {false, true}) {
    const Simulation simulation = step("layout.tp_chunks=2", overlap, 1e-3);
    for (const SimulatedRank& rank : simulation.ranks) {
      EXPECT_NEAR(rank.exposed_s, simulation.step_s - rank.busy_s, 1e-6 * simulation.step_s) << overlap;
      EXPECT_GT(rank.exposed_s, 0.1 * simulation.step_s) << overlap;
    }
  }
}

TEST(SplitOverlap, ChunksHideMoreWhereMessagesAreCheap) {
  const std::string whole = "layout.tp_chunks=1", chunks = "layout.tp_chunks=8";
  EXPECT_LT(step_s(chunks, true), 0.97 * step_s(whole, true));
  EXPECT_GT(step_s(chunks, true, 1e-2), step_s(whole, true, 1e-2)) << "each chunk has its latency";
  EXPECT_NEAR(step_s(chunks, false), step_s(whole, false), 1e-9) << "nothing overlaps";
}

}  // namespace
}  // namespace weft::split_overlap_test
