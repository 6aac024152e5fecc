// ScaleGrid and its report: points and layouts from a recipe, efficiency, table, JSON and picture from given summaries.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "tests/data/temp_folder.h"
#include "weft/base/error.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/report/summary.h"
#include "weft/study/scale_report.h"

namespace weft::scale_test {
namespace {

constexpr const char* kRecipe = R"(
model = { name = "mlp", width = 64, layers = 3, classes = 3 }
data = { name = "images", path = "somewhere" }
batch = { global = 16 }
optimizer = { name = "sgd", lr = 0.1, warmup = 50 }
run = { steps = 100, evaluate_every = 8, target = "loss <= 1" }
)";

class ScaleGridTest : public ::testing::Test {
 protected:
  ScaleGridTest() { folder_.write("r.toml", kRecipe); }
  std::vector<ScalePoint> points(const ScaleGrid& grid, const std::vector<std::string>& own = {}) const {
    return scale_points(folder_.file("r.toml"), own, grid);
  }
  Recipe recipe(const ScalePoint& point, std::vector<std::string> own = {}) const {
    own.insert(own.end(), point.overrides.begin(), point.overrides.end());
    return load_recipe(folder_.file("r.toml"), own);
  }

  test::TempFolder folder_;
};

TEST_F(ScaleGridTest, StrongKeepsTheBatchAndWeakThatOfARank) {
  std::vector<std::string> names;
  for (const ScalePoint& point :
       points({.ranks = {4, 2}, .layouts = {"dp", "shard"}, .modes = {ScaleMode::strong, ScaleMode::weak}, .steps = 5})) {
    names.push_back(fmt::format("{}:{}", point.name(), point.batch));
    EXPECT_EQ(point.refusal, "");
    const Recipe made = recipe(point);
    EXPECT_EQ(made.run.steps, 5);
    EXPECT_FALSE(made.run.evaluate_every);
    EXPECT_EQ(made.run.target, "");
    EXPECT_EQ(made.batch.global, point.batch);
    EXPECT_EQ(made.layout.shard_level, point.layout == "dp" ? "none" : "parameters");
    EXPECT_EQ(point.layout == "dp" ? made.layout.dp : made.layout.shard, point.ranks);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"strong-dp-r2:16", "strong-dp-r4:16", "strong-shard-r2:16", "strong-shard-r4:16",
                                             "weak-dp-r2:16", "weak-dp-r4:32", "weak-shard-r2:16", "weak-shard-r4:32"}));
}

TEST_F(ScaleGridTest, EqualPointsRunOnce) {
  const auto all =
      points({.ranks = {1, 2}, .layouts = {"dp", "zero1", "shard", "pp"}, .modes = {ScaleMode::strong, ScaleMode::weak}});
  ASSERT_EQ(all.size(), 16u);
  const auto runs = different_runs(all);
  ASSERT_EQ(runs.size(), 9u) << "one rank, and two of each layout in each mode";
  EXPECT_EQ(runs[0].size(), 8u);
  for (const size_t point : runs[0]) EXPECT_EQ(all[point].ranks, 1);
}

TEST_F(ScaleGridTest, LayoutsAreNamesOrKeys) {
  const Recipe pp = recipe(points({.ranks = {2}, .layouts = {"pp"}, .modes = {ScaleMode::strong}}).at(0));
  EXPECT_EQ(pp.layout.pp, 2);
  EXPECT_EQ(pp.layout.dp, 1);
  for (const std::string style : {"master", "naive"}) {
    const Recipe textbook = recipe(points({.ranks = {1, 2}, .layouts = {style}, .modes = {ScaleMode::strong}}).at(1));
    EXPECT_EQ(textbook.layout.pp, 2);
    EXPECT_EQ(textbook.layout.style, style);
    EXPECT_EQ(points({.ranks = {2}, .layouts = {"dp"}, .modes = {ScaleMode::strong}}, {"layout.style=" + style}).at(0).refusal,
              "")
        << "other layouts are not of the recipe's style";
  }
  EXPECT_EQ(layout_overrides("layout.pp=N+layout.schedule=gpipe", 4),
            (std::vector<std::string>{"layout.pp=4", "layout.schedule=gpipe"}));
  EXPECT_TRUE(layout_overrides("recipe", 4).empty());
  const std::string keys = "layout.pp=1+layout.offload_folder=" + std::string(300, 'x');
  const ScalePoint a{.layout = keys + "1", .ranks = 2}, b{.layout = keys + "2", .ranks = 2};
  EXPECT_LT(a.name().size(), 200u) << "a file's name";
  EXPECT_NE(a.name(), b.name());
  try {
    layout_overrides("zero4", 2);
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("unknown layout 'zero4'; did you mean 'zero"), std::string::npos) << error.what();
  }
}

/// Keys for the recipe's own layout do not prevent measuring another.
TEST_F(ScaleGridTest, KeysOfTheRecipesOwnLayoutAreLeftOut) {
  const std::vector<std::string> own = {"layout.shard=2", "layout.shard_level=parameters", "layout.prefetch=2",
                                        "layout.gathered_mb=64"};
  for (const ScalePoint& point :
       points({.ranks = {1, 2}, .layouts = {"dp", "zero1", "zero3", "master"}, .modes = {ScaleMode::strong}}, own)) {
    EXPECT_EQ(point.refusal, "") << point.name();
    EXPECT_EQ(recipe(point, own).layout.prefetch == 2, point.layout == "zero3" && point.ranks == 2) << point.name();
  }
}

TEST_F(ScaleGridTest, WhatTheRecipeRefusesIsARowUnlessItIsAll) {
  const auto some = points({.ranks = {1, 2}, .layouts = {"layout.pp=2"}, .modes = {ScaleMode::strong}});
  ASSERT_EQ(some.size(), 2u);
  EXPECT_NE(some[0].refusal, "");
  EXPECT_EQ(some[1].refusal, "");
  EXPECT_THROW(points({.ranks = {1, 2}, .layouts = {"layout.pp=3"}, .modes = {ScaleMode::strong}}), InputError);
  EXPECT_THROW(points({.ranks = {1}, .layouts = {"layout.pq=3"}, .modes = {ScaleMode::strong}}), InputError);
  EXPECT_THROW(points({.ranks = {1}, .modes = {ScaleMode::strong}}, {"save.folder=x"}), InputError);
}

ScaleResult result(ScaleMode mode, const char* layout, int ranks, double samples_per_s) {
  FinalReport report;
  report.samples_per_s = 1.07 * samples_per_s;  // a mean, which some slow steps move; the median step is what counts
  report.step_ms_p50 = 1e3 * 16 / samples_per_s;
  report.step_communication_share = 0.125;
  report.communication_share = 0.05;
  report.peak_rss_mb = {100, 120};
  return parse_scale_point({.mode = mode, .layout = layout, .ranks = ranks, .batch = 16}, summary_json(report), "s.json");
}

ScaleResult runs(ScaleMode mode, const char* layout, int ranks, const std::vector<double>& samples_per_s) {
  std::vector<ScaleResult> all;
  for (const double rate : samples_per_s) all.push_back(result(mode, layout, ranks, rate));
  return median_of_runs(all);
}

ScaleStudy study() {
  ScaleStudy study{.recipe = "r.toml", .cores = 2, .threads = 1, .results = {}};
  study.results = {result(ScaleMode::strong, "dp", 1, 1000), result(ScaleMode::strong, "dp", 2, 1800),
                   result(ScaleMode::strong, "dp", 4, 2000), result(ScaleMode::weak, "dp", 2, 500)};
  study.results.push_back(
      {.point = {.mode = ScaleMode::weak, .layout = "dp", .ranks = 4, .batch = 32}, .failure = "out of memory"});
  return study;
}

TEST(ScaleReport, EfficiencyIsAgainstTheFewestRanksOfTheSame) {
  const ScaleStudy all = study();
  std::vector<double> found;
  for (const ScaleResult& one : all.results) found.push_back(efficiency(all, one));
  const double expected[] = {1.0, 0.9, 0.5, 1.0, 0.0};
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-9) << i;
}

TEST(ScaleReport, TableShowsWhereCoresAreShared) {
  EXPECT_EQ(scale_table(study()),
            R"(       layout ranks   batch samples/s efficiency     step spread  comm.   memory
strong dp         1      16    1.00 k    100.0 %  16.0 ms      -   12 %   120 MB
strong dp         2      16    1.80 k     90.0 %  8.89 ms      -   12 %   120 MB
strong dp         4*     16    2.00 k     50.0 %  8.00 ms      -   12 %   120 MB
weak   dp         2      16       500    100.0 %  32.0 ms      -   12 %   120 MB
weak   dp         4*     32  out of memory
strong: the same batch; weak: the same samples per rank. efficiency: relative to
ideal scaling from the layout's fewest ranks. step: the median of the runs'
medians; spread: between fastest and slowest run. comm.: share of a step in
collectives, waiting for other ranks included. memory: the largest of all ranks.
* more threads than the 2 cores here: they measure shared cores, not scaling
)");
  ScaleStudy roomy = study();
  roomy.cores = 4;
  EXPECT_EQ(scale_table(roomy).find("shared cores"), std::string::npos);
}

TEST(ScaleReport, MediansOfRunsAndWhatTheirSpreadHides) {
  ScaleStudy noisy{.recipe = "r.toml", .cores = 4, .threads = 1, .results = {}};
  noisy.results = {runs(ScaleMode::strong, "dp", 1, {1000, 900, 1010}), runs(ScaleMode::strong, "dp", 2, {1700, 950, 1200}),
                   runs(ScaleMode::strong, "dp", 4, {2000, 2020, 2010}), runs(ScaleMode::weak, "dp", 1, {1000, 1300, 1010})};
  const ScaleResult& two = noisy.results[1];
  EXPECT_NEAR(two.samples_per_s, 1200, 1e-6);
  EXPECT_NEAR(two.step_ms, 1e3 * 16 / two.samples_per_s, 1e-6) << "a row is of one piece";
  EXPECT_NEAR(spread(two), (16 / 950.0 - 16 / 1700.0) / (16 / 1200.0), 1e-6);
  EXPECT_EQ(two.runs, 3);
  const std::string table = scale_table(noisy);
  EXPECT_NE(
      table.find("warning: these points' runs vary widely; a quieter machine, more --repeats or\nmore --steps would help\n"
                 "  strong dp, 2 ranks: by 56 %, which hides whether it is faster than 1 rank\n"
                 "  weak dp, 1 rank: by 23 %\n"),
      std::string::npos)
      << table;
  EXPECT_EQ(table.find("4 ranks: by"), std::string::npos) << table;
  EXPECT_EQ(median_of_runs({two, {.failure = "out of memory"}}).failure, "out of memory");
  for (const auto& line : {"whisker"}) EXPECT_NE(scale_chart(noisy).find(line), std::string::npos);
}

// A colour is a layout, a mark a mode, in the legend as at the points.
TEST(ScaleReport, ThePictureIsReadByItsLegend) {
  ScaleStudy both{.recipe = "r.toml", .cores = 4, .threads = 1, .results = {}};
  for (const ScaleMode mode : {ScaleMode::strong, ScaleMode::weak}) {
    for (const char* layout : {"dp", "pp"}) both.results.push_back(result(mode, layout, 2, 1000));
  }
  const std::string svg = scale_chart(both);
  std::vector<std::string> points, legend;
  const std::regex marked("<g (?:class=\"point\" )?stroke=\"(#[0-9a-f]+)\"[^>]*>(<[a-z]+)");
  const size_t begin = svg.find("class=\"legend\"");
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), marked); it != std::sregex_iterator(); ++it) {
    (static_cast<size_t>(it->position()) < begin ? points : legend).push_back((*it)[1].str() + (*it)[2].str());
  }
  ASSERT_EQ(points.size(), 4u) << svg;
  EXPECT_EQ(points, legend);
  EXPECT_EQ(points[0].substr(0, 7), points[2].substr(0, 7)) << "dp";
  EXPECT_NE(points[0].substr(0, 7), points[1].substr(0, 7)) << "dp and pp";
  EXPECT_EQ(points[0].substr(7), points[1].substr(7)) << "strong";
  EXPECT_NE(points[0].substr(7), points[2].substr(7)) << "strong and weak";
}

TEST(ScaleReport, JsonAndPictureHaveEveryPoint) {
  const auto json = nlohmann::json::parse(scale_json(study()));
  EXPECT_EQ(json.at("cores"), 2);
  ASSERT_EQ(json.at("rows").size(), 5u);
  EXPECT_NEAR(json.at("rows").at(1).at("efficiency").get<double>(), 0.9, 1e-9);
  EXPECT_EQ(json.at("rows").at(1).at("runs"), 1);
  EXPECT_EQ(json.at("rows").at(1).at("communication_share"), 0.125);
  EXPECT_EQ(json.at("rows").at(2).at("shares_cores"), true);
  EXPECT_EQ(json.at("rows").at(4).at("failure"), "out of memory");
  const std::string svg = scale_chart(study());
  for (const char* words :
       {">Throughput vs ranks<", ">dp, strong<", ">dp, weak<", ">ideal scaling, in the same colour<", ">samples per second<"}) {
    EXPECT_NE(svg.find(words), std::string::npos) << words;
  }
  EXPECT_EQ(scale_chart({.recipe = "r.toml", .results = {{.failure = "no"}}}), "");
  EXPECT_THROW(parse_scale_point({}, "{}", "s.json"), InputError);
}

}  // namespace
}  // namespace weft::scale_test
