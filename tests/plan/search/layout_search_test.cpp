// The search for layouts against simulating every layout of its space.
#include "weft/plan/search/layout_search.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "tests/data/temp_folder.h"
#include "tests/support/refusal.h"
#include "tests/support/seeds.h"
#include "weft/base/error.h"
#include "weft/plan/forecast.h"
#include "weft/plan/layout/planned_device.h"
#include "weft/plan/search/layout_bounds.h"
#include "weft/plan/search/search_space.h"
#include "weft/plan/search/space_facts.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/recipe/read/recipe_checks.h"
#include "weft/recipe/toml/hardware_file.h"

namespace weft::layout_search_test {
namespace {

using ::testing::HasSubstr;

constexpr unsigned kSpaces = test::cases(16);

/// A recipe; `batch` and `optimizer` are further keys of these sections.
Recipe recipe_of(const std::string& model, const std::vector<std::string>& overrides = {}, const std::string& batch = "",
                 const std::string& optimizer = "") {
  return parse_recipe(fmt::format("model = {{ {} }}\ndata = {{ name = \"{}\", path = \"none\" }}\nbatch = {{ global = 8{} }}\n"
                                  "optimizer = {{ name = \"adamw\", lr = 1e-3{} }}\nrun = {{ steps = 4 }}\n",
                                  model, model.find("context") == std::string::npos ? "images" : "text", batch, optimizer),
                      "layout_search_test", overrides);
}

/// A rate or a time between 1 and 1000 times `least`.
double number(test::Random& random, double least) { return least * std::pow(10.0, random.below(301) / 100.0); }

/// Rates of all operators, between which caches make a difference.
OperatorCosts random_rates(test::Random& random) {
  OperatorCosts costs;
  costs.rates.near_bytes = number(random, 1e3);
  for (const std::string& of : kOperatorClasses.all()) {
    for (const int64_t element_bytes : {2, 4}) {
      costs.rates.of.push_back({.of = of,
                                .element_bytes = element_bytes,
                                .start_s = number(random, 1e-8),
                                .work_s = number(random, 1e-12),
                                .byte_s = number(random, 1e-12),
                                .far_byte_s = number(random, 1e-12),
                                .extra_s = number(random, 1e-12)});
    }
  }
  return costs;
}

CollectiveCosts random_collectives(test::Random& random) {
  return {.start_s = number(random, 1e-8),
          .all_reduce_start_s = number(random, 1e-8),
          .half_rate_bytes = random.one_in(2) ? 0.0 : number(random, 1e3),
          .half_rate_power = 0.7,
          .hop_s = number(random, 1e-8),
          .taken_from_compute = random.of<double>({0.0, 0.27, 1.0})};
}

Hardware random_hardware(test::Random& random) {
  Hardware hardware{.name = "random",
                    .kind = random.one_in(3) ? "cpu" : "cuda",
                    .flops = number(random, 1e10),
                    .efficiency = 0.1 * (1 + random.below(10)),
                    .memory_bytes_per_s = number(random, 1e9),
                    .launch_s = random.one_in(2) ? 0.0 : number(random, 1e-8),
                    .ranks_per_host = 1 << random.below(3),
                    .intra_host = {.latency_s = number(random, 1e-8), .bytes_per_s = number(random, 1e8)},
                    .inter_host = {.latency_s = number(random, 1e-7), .bytes_per_s = number(random, 1e7)},
                    .offload = {.latency_s = number(random, 1e-8), .bytes_per_s = number(random, 1e8)}};
  hardware.narrow_flops = 2.0 * hardware.flops;
  if (hardware.kind == "cpu") {
    hardware.overlap = random.one_in(2);
    hardware.two_levels = random.one_in(2);
    if (random.one_in(2)) hardware.cores = {.per_host = 1 + random.below(4), .thread_power = 0.8, .network_share = 0.3};
    if (random.one_in(2)) hardware.operators = random_rates(random);
    if (random.one_in(3)) hardware.collectives = random_collectives(random);
    return hardware;
  }
  if (random.one_in(2)) hardware.host_launch_s = number(random, 1e-8);
  if (random.one_in(3)) return hardware;
  hardware.operators = OperatorCosts{.products = {.processors = 4.0, .efficiency = 0.8, .fill = 8.0, .start_s = 1e-6},
                                     .attention = {.forward = 0.5, .backward = 0.4, .half_length = 8.0, .start_s = 1e-6},
                                     .memory_bound = {.efficiency = 0.7, .start_s = 1e-6}};
  hardware.collectives = random_collectives(random);
  return hardware;
}

/// A case: a recipe, some of whose keys stay, so that its space is small enough to simulate all of it.
struct Case {
  Recipe recipe;
  int world = 1;
  Hardware hardware;
  SearchOptions options = {};
};

Case random_case(test::Random& random) {
  const std::string model = random.of<std::string>({
      "name = \"gpt\", layers = 6, heads = 2, width = 32, context = 16, tied_embeddings = true",
      "name = \"gpt\", layers = 3, heads = 4, width = 64, context = 32",
      "name = \"llama\", layers = 4, heads = 4, kv_heads = 2, width = 32, context = 16",
      "name = \"mlp\", layers = 4, width = 64, image_size = 8",
      "name = \"resnet\", depth = 8, image_size = 8",
  });
  const bool sharded = random.one_in(2);
  const int world = 2 << random.below(2);
  std::vector<std::string> overrides = {fmt::format("layout.precision={}", random.of<std::string>({"fp32", "bf16"})),
                                        fmt::format("optimizer.clip={}", random.below(2)),
                                        fmt::format("layout.pp={}", std::min(1 << random.below(3), world)),
                                        fmt::format("batch.micro={}", 1 << random.below(3)),
                                        fmt::format("layout.recompute={}", random.of<std::string>({"none", "blocks"}))};
  if (sharded) overrides.emplace_back("layout.shard_level=parameters");
  if (sharded) overrides.push_back(fmt::format("layout.prefetch={}", 1 + random.below(2)));
  const std::string offloaded = random.of<std::string>({"", "", "optimizer", "parameters"});
  const bool offloads = !offloaded.empty() && (sharded || offloaded == "optimizer");
  if (offloads) overrides.push_back(fmt::format("layout.offload_{}=host", offloaded));
  const std::string ramp = random.one_in(3) ? ", ramp = [{ global = 4, steps = 2 }]" : "";
  const std::string frozen = random.of<std::string>({"", "", "*.weight", "*1*"});
  const std::string groups = frozen.empty() ? "" : fmt::format(", groups = [{{ names = \"{}\", frozen = true }}]", frozen);
  Case result{.recipe = recipe_of(model, overrides, ramp, groups), .world = world, .hardware = random_hardware(random)};
  result.options = {.most = 1 + random.below(6), .kept = {"layout.prefetch"}};
  if (offloads) result.options.kept.push_back("layout.offload_" + offloaded);
  if (random.one_in(2)) result.options.kept.emplace_back("layout.recompute");
  if (sharded && random.one_in(2)) result.options.kept.emplace_back("layout.shard_level");
  result.options.kept.emplace_back(random.one_in(2) ? "layout.pp" : "batch.micro");
  return result;
}

/// A simulated layout.
struct Simulated {
  LayoutChoice choice;
  double step_s = 0.0;
  int64_t bytes = 0;
};

/// Every layout of a space, simulated one by one as `weft simulate` does; checks its bounds.
class Everything {
 public:
  Everything(const Case& of, const SearchSpace& space, std::shared_ptr<CostTable> costs)
      : of_(of),
        space_(space),
        costs_(costs),
        hardware_(with_threads(of.hardware, space.base, space.world)),
        bounds_(space_, hardware_, costs) {
    for (const BlockChoice& blocks : block_choices(space_)) {
      for (const PipelineChoice& pipeline : pipeline_choices(space_, blocks)) {
        for (const StateChoice& states : state_choices(space_, blocks, pipeline)) {
          simulate({.blocks = blocks, .pipeline = pipeline, .states = states});
        }
      }
    }
  }

  const std::vector<Simulated>& all() const { return all_; }

  /// Those that fit, the fastest first, where those that do not may be offloaded.
  std::vector<Simulated> best(double limit) {
    std::vector<Simulated> fitting;
    const auto plain = all_;
    for (const Simulated& layout : plain) {
      if (static_cast<double>(layout.bytes) <= limit) {
        fitting.push_back(layout);
        continue;
      }
      for (const StateChoice& states : offloaded(space_, layout.choice)) {
        const size_t before = all_.size();
        simulate({layout.choice.blocks, layout.choice.pipeline, states});
        if (all_.size() == before || static_cast<double>(all_.back().bytes) > limit) continue;
        fitting.push_back(all_.back());
      }
    }
    std::sort(fitting.begin(), fitting.end(), [](const auto& a, const auto& b) { return a.step_s < b.step_s; });
    return fitting;
  }

 private:
  void simulate(const LayoutChoice& choice) {
    const Recipe recipe = weft::recipe_of(space_, choice);
    RecipeSimulation step;
    try {
      step = recipe_simulation(recipe, of_.world, of_.hardware, {}, costs_);
    } catch (const InputError&) {
      return;
    }
    const CountedChoice counted = bounds_.counted(choice);
    if (bounds_.repeats_stages(counted)) return;
    Simulated result{.choice = choice, .step_s = step.simulation.step_s};
    for (const SimulatedRank& rank : step.simulation.ranks) {
      result.bytes = std::max({result.bytes, rank.memory.total(), rank.memory.reserved_bytes});
    }
    check_bounds(counted, result, recipe);
    all_.push_back(result);
  }

  void check_bounds(const CountedChoice& counted, const Simulated& result, const Recipe& recipe) {
    SCOPED_TRACE(layout_forecast(recipe, of_.world, of_.hardware, costs_).text);
    EXPECT_LE(bounds_.seconds_of_blocks(counted), result.step_s);
    EXPECT_LE(bounds_.seconds_of_pipeline(counted), result.step_s);
    EXPECT_LE(bounds_.seconds(counted), result.step_s);
    EXPECT_LE(bounds_.refined_seconds(counted), result.step_s);
    EXPECT_LE(bounds_.bytes(counted), result.bytes);
    EXPECT_LE(bounds_.bytes_of_blocks(counted.choice), result.bytes);
  }

  const Case& of_;
  const SearchSpace& space_;
  std::shared_ptr<CostTable> costs_;
  Hardware hardware_;
  LayoutBounds bounds_;
  std::vector<Simulated> all_;
};

/// Steps of the layouts.
std::vector<double> seconds_of(const std::vector<Simulated>& layouts) {
  std::vector<double> seconds;
  for (const Simulated& layout : layouts) seconds.push_back(layout.step_s);
  return seconds;
}

/// The least approach and step of what SearchResult::simpler may be; empty: nothing.
std::optional<std::pair<Approach, double>> simplest(const std::vector<Simulated>& fitting, const LayoutForecast& first) {
  const auto offloads = [](const LayoutRecipe& x) {
    return x.offload_optimizer != "none" || x.offload_parameters != "none" || x.offload_activations != "none";
  };
  std::optional<std::pair<Approach, double>> least;
  for (const Simulated& layout : fitting) {
    const auto& [blocks, pipeline, states] = layout.choice;
    const Approach approach = approach_of(
        {.pp = pipeline.pp, .dp = states.dp, .shard = states.shard, .cp = blocks.cp, .tp = blocks.tp}, states.level);
    if (approach >= first.approach || layout.step_s > (1.0 + kAboutAsFast) * first.step_s) continue;
    if (states.offloads() && !offloads(first.recipe.layout)) continue;
    const std::pair found(approach, layout.step_s);
    least = least ? std::min(*least, found) : found;
  }
  return least;
}

/// All that a search finds, except its own time.
std::string outcome_of(const SearchResult& found) {
  std::string text =
      fmt::format("{} {} {} {} {}\n", found.layouts, found.illegal, found.over_memory, found.bounded, found.simulated);
  for (const LayoutForecast& layout : found.best)
    text += fmt::format("{} {} {}\n", layout.text, layout.step_s, layout.memory_bytes);
  for (const LeftOut& group : found.left_out) text += fmt::format("{} {}\n", group.text, group.layouts);
  return text;
}

TEST(LayoutSearch, FindsWhatSimulatingEveryLayoutFinds) {
  for (const unsigned seed : test::seeds(kSpaces)) {
    SCOPED_TRACE(test::replay(seed));
    test::Random random(seed);
    Case one = random_case(random);
    const Recipe planned = for_hardware(one.recipe, one.hardware);
    const auto costs = std::make_shared<CostTable>(planned);
    const SearchSpace space = search_space(planned, one.world, one.hardware,
                                           space_facts(planned, one.world, one.hardware, *costs), one.options.kept, {});
    Everything everything(one, space, costs);
    if (everything.all().empty()) {  // the kept keys do not go together
      const SearchResult none = search_layouts(one.recipe, one.world, one.hardware, one.options, costs);
      EXPECT_TRUE(none.best.empty());
      EXPECT_EQ(none.illegal, none.layouts);
      continue;
    }
    const int64_t some = random.of(everything.all()).bytes;
    one.options.memory_bytes = static_cast<double>(some) * (random.one_in(3) ? 100.0 : 1.0);
    const std::vector<Simulated> fitting = everything.best(one.options.memory_bytes);
    std::vector<double> expected = seconds_of(fitting);
    expected.resize(std::min(expected.size(), static_cast<size_t>(one.options.most)));

    const SearchResult found = search_layouts(one.recipe, one.world, one.hardware, one.options, costs);
    std::vector<double> seconds;
    for (const LayoutForecast& layout : found.best) {
      seconds.push_back(layout.step_s);
      EXPECT_LE(std::max(layout.memory_bytes, layout.reserved_bytes), one.options.memory_bytes) << layout.text;
    }
    EXPECT_EQ(seconds, expected);
    EXPECT_FALSE(found.simpler);
    one.options.finds_simpler = true;
    const SearchResult more = search_layouts(one.recipe, one.world, one.hardware, one.options, costs);
    EXPECT_EQ(more.simpler.has_value(), !more.best.empty() && simplest(fitting, more.best.front()).has_value());
    if (more.simpler) {
      EXPECT_EQ(std::pair(more.simpler->approach, more.simpler->step_s), simplest(fitting, more.best.front()));
    }
    one.options.finds_simpler = false;
    EXPECT_EQ(found.layouts, found.illegal + found.over_memory - found.too_large + found.bounded + found.simulated);
    one.options.threads = 1 + static_cast<int>(seed % 3);
    const SearchResult other = search_layouts(one.recipe, one.world, one.hardware, one.options);
    EXPECT_EQ(outcome_of(other), outcome_of(found)) << "with other threads, and costs measured again";
  }
}

/// A recipe of transformer layers for the tests below.
Recipe gpt(const std::vector<std::string>& overrides = {}) {
  return recipe_of("name = \"gpt\", layers = 3, heads = 4, width = 64, context = 32", overrides);
}

TEST(LayoutSearch, NamesSimplerLayoutsThatAreAboutAsFast) {
  const Hardware hardware = load_hardware(WEFT_SOURCE "/hardware/h100_node.toml");
  const std::vector<std::string> keys = {"layout.precision=bf16", "batch.global=1024", "batch.micro=128"};
  const auto recipe = [&](std::vector<std::string> more) {
    more.insert(more.end(), keys.begin(), keys.end());
    return recipe_of("name = \"gpt\", layers = 2, heads = 12, width = 768, context = 1024, vocabulary = 50304", more);
  };
  SearchOptions options{.most = 1, .kept = {"batch.micro", "layout.tp", "layout.cp", "layout.pp"}, .finds_simpler = true};
  const auto simpler = [&](const std::vector<std::string>& more) {
    const SearchResult found = search_layouts(recipe(more), 8, hardware, options);
    EXPECT_EQ(found.best.size(), 1u);
    EXPECT_EQ(found.best.front().approach, Approach::sharded);
    if (found.simpler) EXPECT_LE(found.simpler->step_s, (1.0 + kAboutAsFast) * found.best.front().step_s);
    return found.simpler ? std::optional(found.simpler->approach) : std::nullopt;
  };
  EXPECT_EQ(simpler({}), Approach::replicas);
  const int64_t of_replicas = layout_forecast(recipe({"layout.dp=8"}), 8, hardware).memory_bytes;
  options.memory_bytes = static_cast<double>(of_replicas - 1);
  EXPECT_EQ(simpler({}), Approach::sharded_states) << "replicas do not fit";
  options.kept.emplace_back("layout.shard_level");
  EXPECT_EQ(simpler({"layout.shard_level=parameters"}), std::nullopt) << "kept";
}

TEST(LayoutSearch, ItsForecastsAreThoseOfSimulateAndMemory) {
  const Hardware hardware = {.kind = "cuda", .flops = 1e12, .narrow_flops = 1e12, .memory_bytes_per_s = 1e12};
  const SearchResult found = search_layouts(gpt(), 4, hardware, {.most = 3});
  ASSERT_EQ(found.best.size(), 3U);
  for (const LayoutForecast& layout : found.best) {
    std::vector<std::string> overrides;
    for (const KeyValue& key : layout.keys) overrides.push_back(key.key + "=" + key.value);
    const Recipe same = gpt(overrides);  // its keys make a valid recipe
    const RecipeSimulation step = recipe_simulation(same, 4, hardware);
    EXPECT_EQ(layout.step_s, step.simulation.step_s) << layout.text;
    int64_t most = 0;
    for (const SimulatedRank& rank : step.simulation.ranks) most = std::max(most, rank.memory.total());
    EXPECT_EQ(layout.memory_bytes, most) << layout.text;
    EXPECT_EQ(layout.memory_bytes, recipe_memory(for_hardware(same, hardware), 4).estimate().total()) << layout.text;
    EXPECT_EQ(layout.reserved_bytes, recipe_memory(for_hardware(same, hardware), 4).estimate().reserved_bytes) << layout.text;
  }
}

/// Host memory is a CPU's own.
TEST(LayoutSearch, OffloadsFromACpuToDisk) {
  Hardware hardware = nominal_hardware();
  hardware.kind = "cpu";
  hardware.offload = {.latency_s = 1e-4, .bytes_per_s = 1e9};
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const LayoutForecast& layout : search_layouts(gpt(), 1, hardware, {.most = 100}).best) {
    least = std::min(least, layout.memory_bytes);
  }
  const SearchResult found = search_layouts(gpt(), 1, hardware, {.most = 1, .memory_bytes = static_cast<double>(least - 1)});
  ASSERT_EQ(found.best.size(), 1U);
  EXPECT_EQ(found.best[0].recipe.layout.offload_optimizer, "disk");
}

TEST(LayoutSearch, KeepsWhatItIsTold) {
  const SearchResult found = search_layouts(gpt({"layout.tp=2"}), 4, nominal_hardware(), {.most = 4, .kept = {"layout.tp"}});
  ASSERT_FALSE(found.best.empty());
  for (const LayoutForecast& layout : found.best) EXPECT_EQ(layout.recipe.layout.tp, 2) << layout.text;
}

TEST(LayoutSearch, PlansModelsWithBatchStatistics) {
  Recipe recipe = recipe_of("name = \"resnet\", depth = 8, image_size = 8");
  recipe.layout.style = "auto";
  const SearchResult found = search_layouts(recipe, 2, nominal_hardware());
  ASSERT_FALSE(found.best.empty());
  for (const LayoutForecast& layout : found.best) EXPECT_EQ(layout.recipe.batch.micro, 4) << layout.text;
}

TEST(LayoutSearch, ItsRecipesHaveOnlyKeysThatAreRead) {
  for (const std::vector<std::string>& keys : {std::vector<std::string>{"layout.bucket_mb=1"},
                                               {"layout.shard_level=parameters", "layout.gathered_mb=64"},
                                               {"layout.pp=2", "layout.schedule=auto", "layout.schedule_activations=3"}}) {
    const SearchResult found = search_layouts(gpt(keys), 4, nominal_hardware(), {.most = 40});
    ASSERT_EQ(found.best.size(), 40U);
    for (const LayoutForecast& layout : found.best) EXPECT_NO_THROW(check_recipe(layout.recipe)) << layout.text;
  }
}

TEST(LayoutSearch, RefusesPipelinesThatItsProfileDoesNotCover) {
  Hardware measured = nominal_hardware();
  measured.micro_batch = 2;
  measured.blocks = {{.name = "*", .forward_s = 1.0, .backward_s = 2.0}};
  test::TempFolder folder;
  folder.write("profile.toml", hardware_text(measured));
  const SearchResult found = search_layouts(gpt({"layout.pp=2", "layout.profile=" + folder.file("profile.toml")}), 2,
                                            nominal_hardware(), {.most = 100, .kept = {"layout.pp"}});
  ASSERT_FALSE(found.best.empty());
  for (const LayoutForecast& layout : found.best) EXPECT_EQ(layout.recipe.batch.micro, 2) << layout.text;
}

TEST(LayoutSearch, KeptAxesMayBeLargerThanTheWorld) {
  Recipe recipe = gpt();
  recipe.layout.tp = 262'144;
  recipe.layout.cp = 16'384;
  EXPECT_EQ(search_layouts(recipe, 2, nominal_hardware(), {.kept = {"layout.tp", "layout.cp"}}).layouts, 0);
}

TEST(LayoutSearch, KeepsTheShardsOfReplicasToo) {
  const SearchResult found = search_layouts(gpt({"layout.shard=2", "layout.shard_level=none"}), 4, nominal_hardware(),
                                            {.most = 100, .kept = {"layout.shard"}});
  ASSERT_FALSE(found.best.empty());
  for (const LayoutForecast& layout : found.best) EXPECT_EQ(layout.recipe.layout.shard, 2) << layout.text;
}

TEST(LayoutSearch, SaysWhatDoesNotFitAndBySoMuch) {
  const SearchResult found = search_layouts(gpt(), 2, nominal_hardware(), {.memory_bytes = 1e4});
  EXPECT_TRUE(found.best.empty());
  ASSERT_FALSE(found.left_out.empty());
  EXPECT_THAT(found.left_out.front().why, HasSubstr("over memory by"));
  EXPECT_EQ(found.layouts, found.illegal + found.over_memory);
}

TEST(LayoutSearch, RefusesOptionsThatMakeNoSense) {
  const auto refusal = [](const SearchOptions& options, const std::vector<std::string>& overrides = {}) {
    return test::refusal([&] { search_layouts(gpt(overrides), 2, nominal_hardware(), options); });
  };
  EXPECT_THAT(refusal({.kept = {"layout.tpp"}}), HasSubstr("unknown key 'layout.tpp'"));
  EXPECT_THAT(refusal({.varied = {"layout.tp"}}), HasSubstr("'layout.tp' cannot be varied"));
  EXPECT_THAT(refusal({.kept = {"layout.schedule"}}, {"layout.schedule=auto", "layout.pp=2"}), HasSubstr("keep another"));
  EXPECT_THAT(refusal({.kept = {"layout.stage_gb"}}, {"layout.stage_gb=1", "layout.pp=2"}), HasSubstr("leave it out"));
  Hardware measured = nominal_hardware();
  measured.micro_batch = 2;
  EXPECT_THAT(test::refusal([&] { search_layouts(gpt({"batch.micro=4"}), 2, measured, {.kept = {"batch.micro"}}); }),
              HasSubstr("its times are for micro-batches of 2"));
}

}  // namespace
}  // namespace weft::layout_search_test
