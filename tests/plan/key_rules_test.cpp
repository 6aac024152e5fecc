// Rules of keys: each key has one, and it describes what happens to a key that nothing reads.
#include "weft/recipe/read/key_rules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "tests/support/refusal.h"
#include "weft/plan/make_plan.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/recipe/read/recipe_checks.h"
#include "weft/recipe/read/recipe_keys.h"
#include "weft/recipe/read/recipe_values.h"

namespace weft::key_rules_test {
namespace {

/// Recipes with which each key is set, in turn.
std::vector<Recipe> recipes() {
  const std::string text =
      "model = { name = \"gpt\", layers = 1, heads = 2, width = 16, context = 16 }\ndata = { name = \"text\" }\n"
      "batch = { global = 8 }\nrun = { steps = 20 }\n";
  const std::vector<std::vector<std::string>> changes = {
      {},
      {"data.name=tokens", "data.tokenizer=uint16", "data.path=p"},
      {"data.name=jsonl", "data.path=p"},
      {"data.name=jsonl", "data.path=p", "data.evaluation_path=e"},
      {"model.name=mlp", "data.name=fashion-mnist"},
      {"model.name=exported", "model.path=" WEFT_SOURCE "/tests/exported/programs/fields.pt2", "model.inputs=arrays",
       "model.loss=mean_squares", "data.name=arrays", "data.path=p"},
      {"model.name=mlp", "data.name=image-folder", "data.path=p"},
      {"model.name=resnet", "model.depth=8", "data.name=cifar10", "data.path=p", "model.channels=3", "model.image_size=32"},
      {"layout.style=master"},
      {"layout.shard_level=parameters", "layout.recompute=blocks"},
      {"layout.backend=gloo"},
      {"optimizer.name=muon", "optimizer.ema=0.5", "run.evaluate_every=5"},
      {"optimizer.scale_lr=linear", "batch.reference=4", "optimizer.warmup=3"},
      {"save.folder=s", "run.evaluate_every=5", "model.weights=w"},
      {"save.folder=s", "save.keep=0"},
  };
  std::vector<Recipe> all;
  for (const auto& change : changes) all.push_back(parse_recipe(text, "r.toml", change));
  all.push_back(
      parse_recipe("model = { name = \"gpt\" }\nbatch = { global = 8 }\nrun = { steps = 20 }\n[data]\nname = \"mix\"\n"
                   "[[data.mix]]\nname = \"text\"\n[[data.mix]]\nname = \"text\"\n",
                   "r.toml"));
  all.push_back(parse_recipe(text + "[[optimizer.groups]]\nnames = \"h.*\"\n", "r.toml"));
  return all;
}

/// Sets the key to another valid value.
void set_another(const FileKey& key) {
  const auto set = [&key](auto* target) {
    using Value = std::remove_pointer_t<decltype(target)>;
    if constexpr (std::is_same_v<Value, std::string>) {
      *target = key.choices.empty() ? "x" : key.choices[*target == key.choices[0] ? 1 : 0];
    } else if constexpr (std::is_same_v<Value, bool>) {
      *target = !*target;
    } else if constexpr (std::is_same_v<Value, std::optional<bool>>) {
      *target = true;
    } else if constexpr (std::is_same_v<Value, RunLength>) {
      *target = RunLength{.amount = 7};
    } else {
      constexpr bool is_whole = !std::is_same_v<Value, double> && !std::is_same_v<Value, std::optional<double>>;
      for (const double value : {7.0, 1.0, 2.0, 0.25, -0.5, 8.0, 20.0}) {
        if (!key.range.holds(value) || (is_whole && value != std::floor(value))) continue;
        Value next{};
        if constexpr (is_whole) {
          next = static_cast<int64_t>(value);
        } else {
          next = value;
        }
        if (*target == next) continue;
        *target = next;
        return;
      }
      FAIL() << key.dotted() << ": no value here is in its range";
    }
  };
  std::visit(set, key.target);
}

std::vector<std::string> all_keys() {
  Recipe recipe;
  std::vector<std::string> names;
  for (const FileKey& key : recipe_keys(recipe)) names.push_back(key.dotted());
  for (const RepeatedSection& section : repeated_recipe_sections(recipe)) {
    for (const FileKey& key : section.known) names.push_back(key.dotted());
  }
  return names;
}

TEST(KeyRules, EachKeyHasOne) {
  for (const std::string& key : all_keys()) EXPECT_NE(key_rule(key), nullptr) << key << ": add it to key_rules.cpp";
  EXPECT_EQ(key_rule("data.mix.2.path"), key_rule("data.mix.path"));
  EXPECT_EQ(key_rule("model.layer"), nullptr);
}

TEST(KeyRules, OnlyUnreadKeysAreRefused) {
  std::set<std::string> refused;
  for (const Recipe& base : recipes()) {
    Recipe names = base;
    for (const FileKey& named : recipe_keys(names)) {
      const std::string key = named.dotted();
      const KeyRule* const rule = key_rule(key);
      if (rule == nullptr || (rule->unread == Unread::refused && rule->is_read == nullptr)) continue;
      Recipe recipe = base;
      for (const FileKey& one : recipe_keys(recipe)) {
        if (one.dotted() == key) set_another(one);
      }
      const bool may_be_unread = rule->unread == Unread::refused || rule->unread == Unread::planned;
      const bool is_read = !may_be_unread || rule->is_read(recipe);
      // A key that the recipe sets already returns to its default, which is no mistake.
      const bool is_unset = recipe_values(recipe)[key] == recipe_values(Recipe())[key];
      const std::string error = test::refusal([&] {
        check_recipe(recipe);
        if (rule->unread == Unread::planned) check_plan(recipe, 1);
      });
      SCOPED_TRACE(key + " with data.name = " + base.data.name + ", model.name = " + base.model.name + ": " + error);
      if (is_read || is_unset) {
        EXPECT_EQ(error.find(key + " is read only with"), std::string::npos);
      } else {
        EXPECT_NE(error, "");
        const bool is_named =
            error.find(named.name) != std::string::npos || error.find("[" + named.section + "]") != std::string::npos;
        EXPECT_TRUE(is_named);
        refused.insert(std::string(rule->key));
      }
    }
  }
  for (const std::string& key : all_keys()) {
    const KeyRule* const rule = key_rule(key);
    if (rule == nullptr || rule->is_read == nullptr || key.starts_with("evaluation.")) continue;
    EXPECT_TRUE(refused.count(std::string(rule->key)) > 0) << key << ": in no recipe here is it unread";
  }
}

}  // namespace
}  // namespace weft::key_rules_test
