// check_order, find_remedies and the keys that layout = "auto" keeps.
#include "weft/plan/advice/order_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "weft/plan/advice/auto_layout.h"
#include "weft/plan/advice/remedies.h"
#include "weft/recipe/read/read_recipe.h"

namespace weft::order_check_test {
namespace {

constexpr const char* kToy = R"(
model = { name = "gpt", layers = 4, heads = 2, width = 32, context = 32 }
data = { name = "text", tokenizer = "bytes" }
batch = { global = 32 }
run = { steps = 20, device = "cpu" }
)";

Hardware machine(double bytes_per_s) {
  Hardware hardware{.name = "toy", .flops = 1e9, .narrow_flops = 1e9, .overlap = false, .ranks_per_host = 4};
  hardware.intra_host = {.latency_s = 0.0, .bytes_per_s = bytes_per_s};
  hardware.inter_host = hardware.intra_host;
  return hardware;
}

/// The same with rates of operators, of which only their work takes time.
Hardware with_rates(Hardware hardware) {
  hardware.kind = "cpu";
  hardware.operators.emplace();
  for (const std::string& of : kOperatorClasses.all()) {
    for (const int64_t bytes : {2, 4})
      hardware.operators->rates.of.push_back({.of = of, .element_bytes = bytes, .work_s = 1e-9});
  }
  return hardware;
}

/// The step of a layout on the machine, as a search returns it.
std::vector<LayoutForecast> forecasts(const Hardware& hardware, const std::vector<std::vector<std::string>>& layouts) {
  std::vector<LayoutForecast> all;
  for (const auto& keys : layouts) all.push_back(layout_forecast(parse_recipe(kToy, "toy.toml", keys), 2, hardware));
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.step_s < b.step_s; });
  return all;
}

class OrderCheckOf : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(RatesOfOperators, OrderCheckOf, testing::Bool(),
                         [](const auto& info) { return info.param ? "measured" : "counted"; });

TEST_P(OrderCheckOf, NamesTheNumbersThatDecide) {
  const auto machine = [](double bytes_per_s) {
    const Hardware hardware = order_check_test::machine(bytes_per_s);
    return GetParam() ? with_rates(hardware) : hardware;
  };
  // Recompute costs operations, the sums of tensor parallelism bytes: with this link both take about as long.
  const std::vector<std::vector<std::string>> two = {{"layout.recompute=blocks"}, {"layout.tp=2"}};
  double low = 1e5, high = 1e9;
  for (int i = 0; i < 14; ++i) {
    const double rate = std::sqrt(low * high);
    const LayoutForecast recompute = forecasts(machine(rate), {two[0]})[0], tensor = forecasts(machine(rate), {two[1]})[0];
    (tensor.step_s > recompute.step_s ? low : high) = rate;
  }
  const Hardware close = machine(high * 1.01);
  const OrderCheck check = check_order(forecasts(close, two), 2, close, nullptr);
  EXPECT_EQ(check.layouts, 2);
  ASSERT_FALSE(check.changes.empty());
  for (const OrderChange& change : check.changes) {
    EXPECT_EQ(change.fastest, 1u) << change.numbers;
    EXPECT_NE(change.layout.find("recompute"), std::string::npos) << change.layout;
  }
  EXPECT_TRUE(std::any_of(check.changes.begin(), check.changes.end(), [](const OrderChange& change) {
    return change.numbers == "the links inside hosts" && change.slower > 1.0 && change.measured_by == "weft netcheck";
  }));
  EXPECT_TRUE(std::any_of(check.changes.begin(), check.changes.end(),
                          [](const OrderChange& change) { return change.numbers == "the rate of operations"; }));
  const Hardware fast = machine(high * 100.0);
  EXPECT_TRUE(check_order(forecasts(fast, two), 2, fast, nullptr).changes.empty()) << "far apart";
  EXPECT_TRUE(check_order({}, 2, fast, nullptr).changes.empty());
}

TEST(AutoLayout, KeepsWhatTheRecipeSets) {
  const Recipe recipe = parse_recipe(kToy, "toy.toml", {"layout=auto", "layout.precision=bf16", "batch.micro=2"});
  EXPECT_TRUE(is_automatic(recipe));
  EXPECT_EQ(keys_to_keep(recipe), (std::vector<std::string>{"batch.micro", "layout.precision"}));
}

TEST(Remedies, TriesTheCheapestFirst) {
  const std::vector<std::string> small = {"layout.shard_level=parameters", "layout.recompute=blocks", "batch.micro=1"};
  Hardware hardware = machine(1e9);
  hardware.memory_bytes =
      1.01 * static_cast<double>(layout_forecast(parse_recipe(kToy, "toy.toml", small), 4, hardware).memory_bytes);
  const Recipe recipe = parse_recipe(kToy, "toy.toml");
  const SearchOptions options{.kept = {"layout.shard_level", "layout.pp", "layout.tp", "layout.cp"}};
  ASSERT_TRUE(search_layouts(recipe, 4, hardware, options).best.empty());
  const std::vector<Remedy> remedies = find_remedies(recipe, 4, hardware, options, /*is_full=*/true, nullptr);
  ASSERT_FALSE(remedies.empty());
  EXPECT_EQ(remedies.front().text, "if layout.shard_level may change");
  for (const Remedy& remedy : remedies) {
    EXPECT_LE(static_cast<double>(remedy.forecast.memory_bytes), hardware.memory_bytes) << remedy.text;
  }
}

}  // namespace
}  // namespace weft::order_check_test
