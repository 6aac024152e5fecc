// StudyGrid: the points of a study, their overrides of the recipe, and errors before anything runs.
#include "weft/study/study_grid.h"

#include <gtest/gtest.h>

#include "tests/data/temp_folder.h"
#include "weft/base/error.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/study/study_settings.h"

namespace weft::study_grid_test {
namespace {

constexpr const char* kRecipe = R"(
model = { name = "mlp", width = 16, layers = 1, classes = 3 }
data = { name = "images", path = "somewhere" }
batch = { global = 16 }
optimizer = { name = "sgd", lr = 0.1 }
run = { steps = 100, evaluate_every = 8 }
)";

class StudyGridTest : public ::testing::Test {
 protected:
  StudyGridTest() { folder_.write("r.toml", kRecipe); }

  std::vector<StudyPoint> points(const StudyGrid& grid, const std::vector<std::string>& own = {}) const {
    return study_points(folder_.file("r.toml"), own, grid);
  }
  std::string error_of(const StudyGrid& grid, const std::vector<std::string>& own = {}) const {
    try {
      points(grid, own);
    } catch (const InputError& error) {
      return error.what();
    }
    return "no error";
  }

  test::TempFolder folder_;
};

TEST(Progression, ListsAndDots) {
  EXPECT_EQ(parse_progression("0.01,0.03, 1e-1"), (std::vector<double>{0.01, 0.03, 0.1}));
  EXPECT_EQ(parse_whole_progression("7"), (std::vector<int64_t>{7}));
  EXPECT_EQ(parse_whole_progression("32,64,...,512"), (std::vector<int64_t>{32, 64, 128, 256, 512}));
  EXPECT_EQ(parse_whole_progression("1,3,...,27,100"), (std::vector<int64_t>{1, 3, 9, 27, 100}));
  EXPECT_EQ(parse_whole_progression("32,64,...,8192").size(), 9u);
  EXPECT_EQ(parse_progression("0.1,0.2,...,0.8").size(), 4u);
}

TEST(Progression, InvalidTextSaysWhy) {
  const struct {
    const char *text, *why;
  } cases[] = {
      {"", "not a list of numbers"},
      {"32,,64", "not a list of numbers"},
      {"32,many", "not a list of numbers"},
      {"0,1", "above 0"},
      {"-1", "above 0"},
      {"inf", "not a list of numbers"},
      {"32,...,64", "two numbers before"},
      {"32,64,...", "a number after"},
      {"64,32,...,8", "continue upwards"},
      {"32,64,...,64", "continue upwards"},
      {"32,64,...,1000", "do not meet"},
      {"32,64.5", "whole number"},
      {"2e9", "whole number"},
      {"1,1.000001,...,1e9", "do not meet"},
  };
  for (const auto& [text, why] : cases) {
    try {
      parse_whole_progression(text);
      ADD_FAILURE() << text << " passes";
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << text << ": " << error.what();
    }
  }
}

TEST_F(StudyGridTest, PointsAreByBatchOptimizerAndRateEachOnce) {
  const std::vector<StudyPoint> all = points({.batches = {64, 8, 64},
                                              .rates = {0.3, 0.1},
                                              .optimizers = {"sgd", "lars"},
                                              .target = "accuracy >= 0.9",
                                              .steps_limit = 50});
  std::vector<std::string> names;
  for (const StudyPoint& point : all) names.push_back(point.name());
  EXPECT_EQ(names, (std::vector<std::string>{"sgd-b8-lr0.1", "sgd-b8-lr0.3", "lars-b8-lr0.1", "lars-b8-lr0.3", "sgd-b64-lr0.1",
                                             "sgd-b64-lr0.3", "lars-b64-lr0.1", "lars-b64-lr0.3"}));
  const Recipe recipe = load_recipe(folder_.file("r.toml"), all.back().overrides);
  EXPECT_EQ(recipe.optimizer.name, "lars");
  EXPECT_EQ(recipe.optimizer.lr, 0.3);
  EXPECT_EQ(recipe.batch.global, 64);
  EXPECT_EQ(recipe.run.steps, 50);
  EXPECT_EQ(recipe.run.target, "accuracy >= 0.9");
  const std::vector<StudyPoint> own = points({.batches = {8}, .target = "loss <= 1"}, {"optimizer.lr=0.7"});
  ASSERT_EQ(own.size(), 1u);
  EXPECT_EQ(own[0].name(), "sgd-b8-lr0.7");
  EXPECT_EQ(own[0].steps, 100);
}

TEST_F(StudyGridTest, IntervalsAreInProportionToTheBatchAndSamplesAreLimited) {
  const auto at = [](const std::vector<StudyPoint>& all) {
    std::vector<std::pair<int64_t, int64_t>> result;
    for (const StudyPoint& point : all) result.emplace_back(point.evaluate_every, point.steps);
    return result;
  };
  using Pairs = std::vector<std::pair<int64_t, int64_t>>;
  StudyGrid grid{.batches = {4, 16, 64, 512}, .target = "loss <= 1"};
  EXPECT_EQ(at(points(grid)), (Pairs{{32, 100}, {8, 100}, {2, 100}, {1, 100}})) << "8 x 16 samples, as in the recipe";
  grid.samples_limit = 1000;
  grid.evaluate_samples = 64;
  EXPECT_EQ(at(points(grid)), (Pairs{{16, 100}, {4, 63}, {1, 16}, {1, 2}}));
}

TEST_F(StudyGridTest, MicroBatchesOfTheRecipeAreTheMost) {
  const auto micro = [&](int ranks) {
    std::vector<int64_t> sizes;
    for (const StudyPoint& point :
         points({.batches = {8, 24, 512}, .target = "loss <= 1", .ranks = ranks}, {"batch.micro=16"})) {
      sizes.push_back(load_recipe(folder_.file("r.toml"), point.overrides).batch.micro.value_or(0));
    }
    return sizes;
  };
  EXPECT_EQ(micro(1), (std::vector<int64_t>{8, 12, 16}));
  EXPECT_EQ(micro(2), (std::vector<int64_t>{4, 12, 16}));
  const std::vector<StudyPoint> reported = points({.batches = {512}, .target = "loss <= 1", .micro = 128});
  EXPECT_EQ(load_recipe(folder_.file("r.toml"), reported.at(0).overrides).batch.micro, 128);
}

TEST_F(StudyGridTest, MistakesAreReportedBeforeAnythingRuns) {
  const StudyGrid good{.batches = {8}, .target = "loss <= 1"};
  EXPECT_EQ(error_of(good), "no error");
  StudyGrid grid = good;
  grid.optimizers = {"sgdd"};
  EXPECT_NE(error_of(grid).find("sgdd"), std::string::npos);
  grid = good;
  grid.batches = {9};
  grid.ranks = 2;
  EXPECT_NE(error_of(grid).find("batch.global = 9 does not divide over 2"), std::string::npos) << error_of(grid);
  EXPECT_NE(error_of(grid).find("(at batch 9, sgd, lr 0.1)"), std::string::npos) << error_of(grid);
  EXPECT_NE(error_of(good, {"run.evaluate_every=0"}).find("--evaluate-samples"), std::string::npos);
  EXPECT_NE(error_of(good, {"optimizer.warmup=100"}).find("does not end within"), std::string::npos);
}

TEST_F(StudyGridTest, AFolderIsOfOneRecipeAndTarget) {
  const StudyGrid grid{.batches = {8}, .target = "loss <= 1"};
  const auto settings = [&](const std::vector<std::string>& own, const StudyGrid& asked) {
    return study_settings(load_recipe(folder_.file("r.toml"), own), asked);
  };
  const std::string before = settings({}, grid);
  StudyGrid wider = grid;
  wider.batches = {8, 16};
  wider.rates = {1, 2};
  wider.optimizers = {"lars"};
  wider.steps_limit = 100;
  EXPECT_TRUE(settings_changes(before, settings({"run.threads=2", "save.folder=s", "optimizer.lr=3"}, wider), "s").empty());
  using Lines = std::vector<std::string>;
  const struct {
    const char* key;
    Lines lines;
  } recipes[] = {{"data.path=x", {"data.path was somewhere, is x"}},
                 {"model.weights=x", {"model.weights was left out, is x"}},
                 {"layout.recompute=blocks", {"layout.recompute was none, is blocks"}}};
  for (const auto& [key, lines] : recipes) EXPECT_EQ(settings_changes(before, settings({key}, grid), "s"), lines);
  StudyGrid crowd = grid;
  crowd.ranks = 2;
  crowd.micro = 4;
  EXPECT_EQ(settings_changes(before, settings({}, crowd), "s"),
            (Lines{"most samples of a forward was left out, is 4", "ranks of a point was 1, is 2"}));
  EXPECT_EQ(settings_changes(before, settings({"model.width=32"}, grid), "s"), (Lines{"model.width was 16, is 32"}));
  EXPECT_EQ(settings_changes(before, settings({"run.seed=2"}, grid), "s"), (Lines{"run.seed was 1, is 2"}));
  wider.target = "loss <= 2";
  wider.samples_limit = 9;
  EXPECT_EQ(settings_changes(before, settings({}, wider), "s"),
            (Lines{"the limit on samples was left out, is 9", "the target was loss <= 1, is loss <= 2"}));
  EXPECT_THROW(settings_changes("{}", before, "s"), InputError);
  EXPECT_THROW(settings_changes("no JSON", before, "s"), InputError);
}

}  // namespace
}  // namespace weft::study_grid_test
