// edited_recipe: a changed recipe as the text of its file.
#include "weft/recipe/read/recipe_edit.h"

#include <gtest/gtest.h>

#include "weft/recipe/read/read_recipe.h"
#include "weft/recipe/read/recipe_values.h"

namespace weft::recipe_edit_test {
namespace {

const std::string kInline = R"(# A small GPT.
model = { name = "gpt", layers = 2, heads = 2, width = 32, context = 16 }
data = { name = "text", tokenizer = "bytes" }
batch = { global = 32 }  # samples
optimizer = { name = "adamw", lr = 1e-3 }
run = { steps = 600, evaluate_every = "2 epochs" }
)";

const std::string kHeaders = R"([model]
name = "gpt"
layers = 2
heads = 2
width = 32
context = 16

# How it is divided.
[layout]
dp = 4  # replicas
shard_level = "none"

[data]
name = "text"
[batch]
global = 32
[run]
steps = 600
)";

/// The edited text, after checking that it reads as `recipe`.
std::string edited(const std::string& text, const Recipe& recipe, const std::vector<std::string>& notes = {}) {
  std::string result = edited_recipe(text, "r.toml", recipe, notes);
  EXPECT_EQ(recipe_values(parse_recipe(result, "r.toml")), recipe_values(recipe)) << result;
  return result;
}

TEST(EditedRecipe, WritesALayoutAndKeepsTheRest) {
  Recipe recipe = parse_recipe(kInline, "r.toml");
  EXPECT_EQ(edited(kInline, recipe), kInline) << "nothing differs";
  recipe.layout.tp = 2;
  recipe.layout.shard_level = "parameters";
  recipe.layout.reshard_after_forward = false;
  recipe.batch.micro = 4;
  const std::string micro = "batch = { global = 32, micro = 4 }  # samples";
  std::string expected = kInline;
  expected.replace(expected.find("batch = "), expected.find('\n', expected.find("batch = ")) - expected.find("batch = "),
                   micro);
  expected += "layout = { shard_level = \"parameters\", reshard_after_forward = false, tp = 2 }\n";
  const std::string once = edited(kInline, recipe, {"two lines", "of notes"});
  EXPECT_EQ(once, "# weft plan: two lines\n# weft plan: of notes\n" + expected);
  EXPECT_EQ(edited(once, recipe, {"again"}), "# weft plan: again\n" + expected) << "notes are replaced";
}

TEST(EditedRecipe, RemovesKeysThatAreLeftOut) {
  Recipe recipe = parse_recipe(kHeaders, "r.toml", {"layout.precision=bf16", "run.epochs=2.5"});
  recipe.layout.dp.reset();
  recipe.layout.shard_level = "optimizer";
  const std::string text = edited(kHeaders, recipe);
  EXPECT_NE(text.find("# How it is divided.\n[layout]\nshard_level = \"optimizer\"\nprecision = \"bf16\"\n\n[data]"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("[run]\nepochs = 2.5\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace weft::recipe_edit_test
