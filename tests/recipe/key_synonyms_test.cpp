// Other systems' key names lead to weft's.
#include "weft/recipe/toml/key_synonyms.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "weft/base/error.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/recipe/read/recipe_keys.h"

namespace weft::key_synonyms_test {
namespace {

std::string error_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse_recipe(text, "r", overrides);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(KeySynonyms, EachLeadsToAKeyAndIsNoneItself) {
  Recipe recipe;
  std::vector<FileKey> keys = recipe_keys(recipe);
  for (const RepeatedSection& each : repeated_recipe_sections(recipe)) {
    keys.insert(keys.end(), each.known.begin(), each.known.end());
  }
  std::set<std::string> ours, names, seen;
  for (const FileKey& key : keys) {
    ours.insert({key.section, key.dotted()});
    names.insert({key.section, key.name});
  }
  for (const auto& [name, meant] : key_synonyms()) {
    EXPECT_TRUE(ours.count(std::string(meant))) << name << " leads to " << meant;
    EXPECT_FALSE(names.count(std::string(name)) || ours.count(std::string(name))) << name << " is a key of weft's";
    EXPECT_TRUE(seen.insert(std::string(name)).second) << name << " is there twice";
  }
}

TEST(KeySynonyms, AreReportedWithTheMeaningOfTheKey) {
  EXPECT_EQ(error_of("[optimizer]\nlearning_rate = 1e-3"),
            "r:2:1: unknown key 'optimizer.learning_rate'; weft's is 'optimizer.lr': learning rate at its peak");
  EXPECT_EQ(error_of("[run]\nbatch-size = 8"),
            "r:2:1: unknown key 'run.batch-size'; weft's is 'batch.global': samples per step, over all ranks");
  EXPECT_EQ(error_of("[training]\nmax_steps = 8"), "r:1:2: unknown key 'training'; weft's is 'run'");
  EXPECT_EQ(error_of("[optimizer]\nparam_groups = 8"),
            "r:2:1: unknown key 'optimizer.param_groups'; weft's is 'optimizer.groups'");
  EXPECT_EQ(error_of("model = { name = 'gpt', Hidden_Size = 3 }")
                .find("r:1:25: unknown key 'model.Hidden_Size'; weft's is 'model.width': "),
            0U);
  EXPECT_EQ(error_of("", {"save.path=runs"}).find("--set save.path=runs: unknown key 'save.path'; weft's is 'save.folder'"),
            0U);
  EXPECT_EQ(
      error_of("", {"early_stopping=1"}).find("--set early_stopping=1: unknown key 'early_stopping'; weft's is 'run.target'"),
      0U);
  EXPECT_EQ(error_of("", {"run.zzz=1"}).find("--set run.zzz=1: unknown key 'run.zzz'; keys are run.steps, "), 0U);
  EXPECT_EQ(error_of("", {"seq_len=64"}).find("--set seq_len=64: unknown key 'seq_len'; weft's is 'model.context': "), 0U);
}

}  // namespace
}  // namespace weft::key_synonyms_test
