// Lines about layouts: what a difference and a wrong forecast say.
#include "weft/train/check/layout_checks.h"

#include <gtest/gtest.h>

#include "tests/support/run_ranks.h"
#include "weft/plan/forecast.h"

namespace weft {
namespace {

CheckedMemory memory_of(int64_t activations, int64_t extra = 0) {
  CheckedMemory memory;
  memory.forecast[static_cast<size_t>(MemoryCategory::weights)] = 8 << 20;
  memory.forecast[static_cast<size_t>(MemoryCategory::activations)] = 8 << 20;
  memory.measured = memory.forecast;
  memory.measured[static_cast<size_t>(MemoryCategory::activations)] = activations;
  memory.extra = extra;
  return memory;
}

TEST(LayoutChecks, MemoryIsAsForecastUpToATwentieth) {
  EXPECT_EQ(memory_of(8 << 20).off(), "");
  EXPECT_EQ(memory_of((8 << 20) * 104 / 100).off(), "");
  EXPECT_EQ(memory_of((8 << 20) * 96 / 100).off(), "");
  EXPECT_EQ(memory_of(9 << 20).off(), "activations take 9.00 MiB, forecast 8.00 MiB");
  EXPECT_EQ(memory_of(7 << 20).off(), "activations take 7.00 MiB, forecast 8.00 MiB");
  EXPECT_EQ(memory_of(9 << 20, 1 << 20).off(), "") << "the device's own scratch";
  CheckedMemory on_hosts = memory_of(8 << 20);
  on_hosts.measured[static_cast<size_t>(MemoryCategory::communication)] = 4 << 20;
  EXPECT_EQ(on_hosts.off(), "communication buffers take 4.00 MiB, forecast 0 B");
}

/// Group buffers too, which are those of each host's ranks.
TEST(LayoutChecks, MemoryOnSeveralHosts) {
  for (const std::vector<std::string>& hosts : {std::vector<std::string>{"a", "a", "b", "b"}, {"a", "a", "a", "b"}}) {
    test::run_ranks(4,
                    [](World world) {
                      const CheckedLayout& pipeline = checked_layouts().at(4);
                      const Recipe recipe = recipe_of(pipeline, 4, {.device = "cpu"});
                      const CheckLine line = check_layout(pipeline, recipe, world, at::kCPU);
                      if (world.rank() != 0) return;
                      EXPECT_EQ(line.verdict, CheckVerdict::ok) << line.text;
                    },
                    {.hosts = hosts});
  }
}

TEST(LayoutChecks, Lines) {
  LayoutComparison comparison{.layout = "dp 2", .steps = 2, .parameters = 3};
  const auto line = [&](const std::vector<CheckedMemory>& memory) { return check_text(layout_line("dp", comparison, memory)); };
  EXPECT_EQ(line({memory_of(8 << 20), memory_of(8 << 20)}),
            "ok      layout dp             trains as one device does, bit by bit; 16.0 MiB, forecast 16.0 MiB\n");
  EXPECT_EQ(line({}),
            "ok      layout dp             trains as one device does, bit by bit; memory not measured on this device\n");
  EXPECT_EQ(line({memory_of(8 << 20), memory_of(9 << 20)}),
            "FAILED  layout dp             trains as one device does, bit by bit, but memory of rank 1 is not as forecast: "
            "activations take 9.00 MiB, forecast 8.00 MiB; report a bug: weft memory and weft simulate are wrong here\n");
  comparison.match = LayoutMatch::different;
  comparison.deviations = {{.what = "h.0.bias", .step = 1, .ulps = 12, .relative = 1.5e-6, .is_weight = true}};
  comparison.causes = {"dp"};
  const std::string different = line({memory_of(9 << 20)});
  EXPECT_TRUE(
      different.starts_with("FAILED  layout dp             dp 2 does not train as one device does: first weights of "
                            "h.0.bias after step 1, by up to 12 ulps (1.5e-06 of the largest element); dp causes it"))
      << different;
}

/// Rows that the number of ranks rules out are said by their lines; the others must be recipes.
TEST(LayoutChecks, LayoutsAreRecipesForAnyNumberOfRanks) {
  EXPECT_EQ(checked_layouts().size(), 12u);
  for (const CheckedLayout& layout : checked_layouts()) {
    for (const int ranks : {1, 2, 3, 4, 6, 16, 24, 64}) {
      if (ranks % layout.divides != 0 || (layout.shares && ranks == 1)) continue;
      EXPECT_NO_THROW(recipe_memory(recipe_of(layout, ranks, {.device = "cpu"}), ranks)) << layout.name << " on " << ranks;
    }
  }
}

}  // namespace
}  // namespace weft
