// Random layouts near the limit of a device's memory: one that is said to fit trains, and one that is said not to fit does not,
// each with 5 % to spare. On the checked device under its limit; on the CPU by what its allocator counts at most.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/device/on_device.h"
#include "tests/support/run_ranks.h"
#include "tests/support/seeds.h"
#include "weft/base/error.h"
#include "weft/checked_device.h"
#include "weft/plan/forecast.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/train/measure/step_memory.h"

namespace weft::memory_limit_test {
namespace {

constexpr double kTolerance = 0.05;
constexpr unsigned kLayouts = 2;  ///< WEFT_FUZZ=20 for 40 in all

using Names = std::vector<std::string>;
using Sizes = std::vector<int>;

struct Drawn {
  int ranks;
  std::string text;
};

/// A random recipe, not yet known to be legal.
Drawn drawn(test::Random& random, const std::string& device) {
  const int ranks = random.of(Sizes{1, 2, 2, 4});
  std::string layout;
  int left = ranks;
  for (const char* axis : {"pp", "tp", "cp"}) {
    const int size = random.of(Sizes{1, 1, 2});
    if (size > left) continue;
    layout += fmt::format("{} = {}, ", axis, size);
    left /= size;
    if (size > 1 && axis == std::string("pp")) {
      layout += fmt::format("schedule = \"{}\", ", random.of(Names{"gpipe", "1f1b", "interleaved", "zb-h1"}));
    }
  }
  layout += fmt::format(R"(shard_level = "{}", recompute = "{}", precision = "{}", loss_chunk = {})",
                        random.of(Names{"none", "optimizer", "gradients", "parameters"}),
                        random.of(Names{"none", "none", "attention", "blocks"}), random.of(Names{"fp32", "bf16"}),
                        random.of(Sizes{0, 0, 16}));
  if (random.one_in(5)) layout += R"(, offload_optimizer = "host")";
  if (random.one_in(5)) layout += R"(, offload_activations = "host")";
  return {ranks, fmt::format(R"(
    model = {{ name = "{}", layers = {}, heads = 4, width = {}, context = {}, vocabulary = {} }}
    data = {{ name = "text", path = "none.txt" }}
    batch = {{ global = 16, micro = {} }}
    layout = {{ {} }}
    optimizer = {{ name = "{}" }}
    run = {{ steps = 3, threads = 1, device = "{}" }}
  )",
                             random.of(Names{"gpt", "llama"}), 2 + random.below(4), random.of(Sizes{64, 128}),
                             random.of(Sizes{64, 128}), random.of(Sizes{256, 2048}), random.of(Sizes{1, 2, 4}), layout,
                             random.of(Names{"adamw", "adamw", "sgd", "lamb", "lion"}), device)};
}

struct Legal {
  Recipe recipe;
  RecipeMemory forecast;
  Drawn drawn;
  double bytes() const { return static_cast<double>(forecast.estimate().total()); }
};

Legal legal(unsigned seed, const std::string& device) {
  for (test::Random random(seed);;) {
    const Drawn candidate = drawn(random, device);
    try {
      Recipe recipe = parse_recipe(candidate.text, "memory_limit_test.toml");
      RecipeMemory forecast = recipe_memory(recipe, candidate.ranks);
      return {std::move(recipe), std::move(forecast), candidate};
    } catch (const InputError&) {  // not legal
    }
  }
}

std::string trace(const Legal& layout, unsigned seed) {
  return fmt::format("{}: {} ranks, {:.0f} bytes\n{}", test::replay(seed), layout.drawn.ranks, layout.bytes(),
                     layout.drawn.text);
}

/// Trains on all ranks and returns the peak of the fullest.
int64_t train(const Legal& layout, const std::function<at::Device(int)>& device) {
  const ResolvedLayout& resolved = layout.forecast.plan.layout;
  const int64_t samples = resolved.global_batch / resolved.data_ranks(), context = layout.recipe.model.context;
  std::vector<int64_t> peaks(static_cast<size_t>(layout.drawn.ranks));
  test::run_ranks(layout.drawn.ranks, [&](World world) {
    const at::Device own = device(world.rank());
    const c10::DeviceGuard current(own);
    const at::Tensor tokens = at::randint(256, {samples, context + 1}, at::detail::createCPUGenerator(5), at::kLong);
    Batch batch{{tokens.narrow(1, 0, context).contiguous()}, tokens.narrow(1, 1, context).contiguous(), 0};
    if (!own.is_cpu()) {
      batch.inputs[0] = batch.inputs[0].pin_memory();
      batch.target = batch.target.pin_memory();
    }
    const StepMemory measured = step_memory(layout.recipe, resolved, world, batch, {.device = own});
    peaks[static_cast<size_t>(world.rank())] = measured.peak_total;
  });
  return *std::max_element(peaks.begin(), peaks.end());
}

bool runs_out_of_memory(const std::function<void()>& run) {
  try {
    run();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    if (text.find("out of memory") == std::string::npos) ADD_FAILURE() << text;
    return true;
  }
  return false;
}

TEST(MemoryLimit, OnTheDeviceWhatIsSaidToFitFits) {
  const auto device = on_device({}).device;
  if (!is_checked_device()) return;  // of others no test can limit the memory
  for (const unsigned seed : test::seeds(test::fuzz_cases(kLayouts))) {
    const Legal layout = legal(seed, "auto");
    SCOPED_TRACE(trace(layout, seed));
    checked_device::set_memory_limit(static_cast<size_t>(layout.bytes() * (1.0 + kTolerance)));
    EXPECT_NO_THROW(train(layout, device));
    checked_device::set_memory_limit(static_cast<size_t>(layout.bytes() / (1.0 + kTolerance)));
    EXPECT_TRUE(runs_out_of_memory([&] { train(layout, device); }));
    checked_device::set_memory_limit(0);
    EXPECT_EQ(said_of_device(), "");
  }
}

TEST(MemoryLimit, OnTheCpuWhatIsSaidToFitFits) {
  for (const unsigned seed : test::seeds(test::fuzz_cases(kLayouts))) {
    const Legal layout = legal(1000 + seed, "cpu");
    SCOPED_TRACE(trace(layout, seed));
    const auto peak = static_cast<double>(train(layout, [](int) { return at::Device(at::kCPU); }));
    EXPECT_LE(peak, layout.bytes() * (1.0 + kTolerance));
    EXPECT_GE(peak, layout.bytes() / (1.0 + kTolerance));
  }
}

}  // namespace
}  // namespace weft::memory_limit_test
