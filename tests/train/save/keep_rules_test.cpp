// Which checkpoints stay: rules alone, over whole runs.
#include "weft/train/save/keep_rules.h"

#include <gtest/gtest.h>

#include <limits>

#include "weft/train/save/recipe_changes.h"

namespace weft::keep_rules_test {
namespace {

/// Checkpoints kept by a run that saves every `every` steps, given the evaluation losses by step.
std::vector<int64_t> kept(const KeepRules& rules, int64_t every, int64_t steps, const std::map<int64_t, double>& losses = {}) {
  std::vector<KeptCheckpoint> there;
  for (int64_t step = every; step <= steps; step += every) {
    KeptCheckpoint c{.step = step, .clock = {.steps = static_cast<double>(step), .seconds = static_cast<double>(step)}};
    if (losses.count(step) > 0) c.loss = losses.at(step);
    there.push_back(c);
    for (const int64_t gone : checkpoints_to_remove(there, rules)) {
      std::erase_if(there, [gone](const KeptCheckpoint& k) { return k.step == gone; });
    }
  }
  std::vector<int64_t> result;
  for (const KeptCheckpoint& c : there) result.push_back(c.step);
  return result;
}

using Steps = std::vector<int64_t>;

TEST(KeepRules, KeepTheNewestThoseOfAnIntervalAndTheBest) {
  EXPECT_EQ(kept({.newest = 3}, 10, 100), (Steps{80, 90, 100}));
  EXPECT_EQ(kept({.newest = 1}, 10, 100), (Steps{100}));
  EXPECT_EQ(kept({.newest = 0}, 10, 40), (Steps{10, 20, 30, 40}));
  EXPECT_EQ(kept({.newest = 2, .every = {50, LengthUnit::steps}}, 10, 180), (Steps{50, 100, 150, 170, 180}));
  EXPECT_EQ(kept({.newest = 1, .every = {50, LengthUnit::steps}}, 30, 180), (Steps{60, 120, 150, 180}));
  const std::map<int64_t, double> losses = {{20, 3.0}, {40, 2.0}, {60, 2.5}, {80, 2.0}};
  EXPECT_EQ(kept({.newest = 1, .best = KeepBest::loss}, 10, 100, losses), (Steps{40, 100}));
  EXPECT_EQ(kept({.newest = 1, .best = KeepBest::accuracy}, 10, 100, losses), (Steps{100}));
}

TEST(KeepRules, ALossThatIsNoNumberIsNotTheBest) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<KeptCheckpoint> checkpoints = {{.step = 1, .clock = {.steps = 1}, .loss = nan, .accuracy = {}},
                                                   {.step = 2, .clock = {.steps = 2}, .loss = 0.5, .accuracy = {}},
                                                   {.step = 3, .clock = {.steps = 3}, .loss = 0.9, .accuracy = {}}};
  EXPECT_EQ(checkpoints_to_remove(checkpoints, {.newest = 1, .every = {}, .best = KeepBest::loss}), (std::vector<int64_t>{1}));
}

TEST(RecipeChanges, ListComputationKeysOnly) {
  for (const char* key : {"model.width", "data.name", "batch.global", "optimizer.lr", "run.seed"})
    EXPECT_FALSE(may_change(key)) << key;
  for (const char* key :
       {"layout.tp", "model.path", "model.loss", "model.blocks", "model.tp_columns", "model.tp_rows", "model.tp_vocabulary",
        "run.steps", "run.threads", "data.path", "batch.micro", "save.every", "run.evaluate_every"}) {
    EXPECT_TRUE(may_change(key)) << key;
  }
  EXPECT_EQ(
      recipe_changes({{"optimizer.groups.1.names", "a"}}, {{"optimizer.groups.2.names", "b"}}),
      (std::vector<std::string>{"optimizer.groups.2.names was absent, is b", "optimizer.groups.1.names was a, now absent"}));
  EXPECT_EQ(recipe_changes({{"optimizer.lr", "0.1"}, {"layout.tp", "1"}, {"gone.key", "1"}, {"data.tokenizer", ""}},
                           {{"optimizer.lr", "0.2"}, {"layout.tp", "2"}, {"data.tokenizer", "bytes"}}),
            (std::vector<std::string>{"data.tokenizer was left out, is bytes", "optimizer.lr was 0.1, is 0.2"}));
  // Older versions accepted and ignored a key that nothing reads.
  EXPECT_EQ(
      recipe_changes({{"data.name", "text"}, {"data.shuffle_mb", "256"}}, {{"data.name", "text"}, {"data.shuffle_mb", "64"}}),
      std::vector<std::string>{});
  EXPECT_EQ(
      recipe_changes({{"data.name", "jsonl"}, {"data.shuffle_mb", "256"}}, {{"data.name", "jsonl"}, {"data.shuffle_mb", "64"}}),
      std::vector<std::string>{"data.shuffle_mb was 256, is 64"});
}

}  // namespace
}  // namespace weft::keep_rules_test
