// ZeRO's published memory of model states (Rajbhandari et al. 2020, arXiv:1910.02054, Table 1: fp16 with Adam) vs weft memory's
// sums. Reads ../shared/published/zero_memory.csv; the build skips these tests if it is missing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/published/table.h"
#include "weft/program/build/build.h"
#include "weft/program/memory.h"

namespace weft {
namespace {

constexpr double kTolerance = 0.03;

struct Row {
  double billions;
  int ranks;
  ShardLevel level;
  double published_gb;
};

ShardLevel level_of(const std::string& stage) {
  if (stage == "ZeRO-1") return ShardLevel::optimizer;
  return stage == "ZeRO-2" ? ShardLevel::gradients : ShardLevel::parameters;
}

std::vector<Row> rows_of_table_one() {
  std::vector<Row> rows;
  for (const published::TableRow& row : published::read_table(WEFT_SHARED "/published/zero_memory.csv")) {
    if (!row.at("table_ref").starts_with("Table 1")) continue;
    rows.push_back({published::needed_number(row, "params_b"), static_cast<int>(published::needed_number(row, "gpus")),
                    level_of(row.at("shard")), published::needed_number(row, "peak_mem")});
  }
  return rows;
}

TEST(ZeroMemory, MatchesTableOne) {
  const std::vector<Row> rows = rows_of_table_one();
  ASSERT_EQ(rows.size(), 54U) << "three sizes, six numbers of ranks, three stages";
  constexpr int kBlocks = 100;
  for (const Row& row : rows) {
    const auto numel = static_cast<int64_t>(row.billions * 1e9) / kBlocks;
    ModelCost model{.name = "published", .blocks = {}};
    for (int b = 0; b < kBlocks; ++b)
      model.blocks.push_back({.name = fmt::format("h.{}", b), .parameters = numel, .numel = numel});
    const Program program = build_program(
        model, {.shard = row.ranks, .shard_level = row.level, .weight_bytes = 2, .gradient_bytes = 2, .check_finite = true});
    const double gb = static_cast<double>(estimate_memory(program, 0, {.optimizer_states = 2}).model_states) / 1e9;
    EXPECT_NEAR(gb, row.published_gb, kTolerance * row.published_gb)
        << row.billions << " B on " << row.ranks << " ranks, " << name(row.level);
  }
}

}  // namespace
}  // namespace weft
