// profile(): its output, and a simulation from that output. Ranks are threads.
#include "weft/train/measure/profile_blocks.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "tests/support/run_processes.h"
#include "tests/support/run_ranks.h"
#include "weft/base/error.h"
#include "weft/plan/forecast.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/recipe/toml/hardware_file.h"

namespace weft::profile_blocks_test {
namespace {

Recipe small(const std::string& layout) {
  return parse_recipe(R"(
model = { name = "mlp", width = 32, layers = 4, classes = 3 }
data = { name = "images", path = "none" }
batch = { global = 16, micro = 2 }
optimizer = { lr = 0.01 }
run = { steps = 1, threads = 1 }
layout = { )" + layout + " }",
                      "small.toml");
}

/// Through its file.
Hardware profiled(int ranks) {
  const int threads = at::get_num_threads();
  std::string text;
  test::run_ranks(ranks, [&text](const World& world) {
    const Hardware hardware = profile(small(""), world, {.rounds = 1, .micro_batches = 2});
    if (world.rank() == 0) text = hardware_text(hardware);
  });
  at::set_num_threads(threads);
  return parse_hardware(text, "profile.toml");
}

/// On ranks that are processes, each on one of `hosts`.
Hardware profiled_on(const std::vector<std::string>& hosts) {
  const std::vector<test::ProcessResult> results = test::run_processes(
      static_cast<int>(hosts.size()),
      [](const World& world) { return hardware_text(profile(small(""), world, {.rounds = 1, .micro_batches = 2})); },
      {.hosts = hosts});
  for (const test::ProcessResult& result : results) EXPECT_EQ(result.error, "");
  return parse_hardware(results[0].output, "profile.toml");
}

std::string error_of(const std::string& layout, int ranks, const Hardware& hardware) {
  try {
    recipe_simulation(small(layout), ranks, hardware);
    return "no error";
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(Profile, links_that_were_not_measured_are_not_in_it) {
  const Hardware alone = profiled(1);
  EXPECT_FALSE(alone.intra_host.is_known || alone.inter_host.is_known || alone.offload.is_known);
  EXPECT_EQ(error_of("", 1, alone), "no error");
  EXPECT_EQ(error_of("dp = 8", 8, alone),
            "hardware 'measured by weft profile' has no inter_host, which axis 'dp+shard' (ranks 0 to 7) needs: add "
            "[inter_host] with latency_s and bytes_per_s (inf: free)");
  EXPECT_EQ(error_of("offload_optimizer = \"disk\"", 1, alone),
            "hardware 'measured by weft profile' has no offload, which moving state out needs: add [offload] with "
            "latency_s and bytes_per_s (inf: free)");
}

TEST(Profile, every_block_has_its_times) {
  const Hardware hardware = profiled(1);
  ASSERT_FALSE(hardware.blocks.empty());
  for (const BlockTime& block : hardware.blocks) {
    EXPECT_GT(block.forward_s, 0.0) << block.name;
    EXPECT_GT(block.backward_s, 0.0) << block.name;
  }
  EXPECT_GT(hardware.loss_s, 0.0);
  EXPECT_GT(hardware.update_s_per_element, 0.0);
}

// Times are of whole blocks, whichever rank holds them.
TEST(Profile, serves_every_layout_of_its_ranks) {
  const Hardware pair = profiled(2);
  EXPECT_TRUE(pair.intra_host.is_known);
  EXPECT_LT(pair.intra_host.bytes_per_s, kFree);
  EXPECT_FALSE(pair.inter_host.is_known || pair.offload.is_known);
  for (const char* layout : {"dp = 2", "pp = 2", "shard = 2", "pp = 2, schedule = \"zb-h1\""}) {
    EXPECT_EQ(error_of(layout, 2, pair), "no error") << layout;
  }
  EXPECT_NE(error_of("pp = 4", 4, pair).find("has no inter_host, which pipeline rank 1 to reach 2 needs"), std::string::npos)
      << error_of("pp = 4", 4, pair);
}

TEST(Profile, of_two_hosts_serves_every_layout_of_its_ranks) {
  const Hardware four = profiled_on({"a", "a", "b", "b"});
  EXPECT_EQ(four.ranks_per_host, 2);
  EXPECT_TRUE(four.intra_host.is_known && four.inter_host.is_known);
  EXPECT_FALSE(four.offload.is_known);
  for (const char* layout : {"dp = 4", "pp = 4", "shard = 4", "pp = 2, dp = 2"}) {
    EXPECT_EQ(error_of(layout, 4, four), "no error") << layout;
  }
}

TEST(Profile, where_neighbours_are_on_different_hosts_all_links_are_between_hosts) {
  const Hardware four = profiled_on({"a", "b", "a", "b"});
  EXPECT_EQ(four.ranks_per_host, 1);
  EXPECT_TRUE(four.inter_host.is_known);
  EXPECT_FALSE(four.intra_host.is_known);
  EXPECT_EQ(error_of("pp = 4", 4, four), "no error");
}

TEST(Profile, of_uneven_hosts_has_the_link_between_them_only) {
  const Hardware four = profiled_on({"a", "a", "a", "b"});
  EXPECT_EQ(four.ranks_per_host, 3);
  EXPECT_TRUE(four.inter_host.is_known);
  EXPECT_FALSE(four.intra_host.is_known);
}

TEST(Profile, times_of_another_model_are_refused) {
  Hardware hardware = profiled(1);
  hardware.blocks.push_back({.name = "hiden.0", .forward_s = 1.0});
  EXPECT_EQ(error_of("", 1, hardware),
            "hardware 'measured by weft profile': [[block]] gives times of block 'hiden.0', which the model does not have; did "
            "you mean 'hidden.0'?");
}

}  // namespace
}  // namespace weft::profile_blocks_test
