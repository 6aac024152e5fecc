// Times a thousand layouts of one model: each is resolved, its program built and verified, its memory and step time estimated.
// A llama of 32 layers (7 B parameters) on 32 to 512 ranks, 2 M tokens per step, in one process with one table of costs. JSON:
// layouts, refused layouts, seconds, and how often blocks were measured.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/plan/cost/cost_table.h"
#include "weft/recipe.h"

namespace {

constexpr const char* kRecipe = R"(
model = { name = "llama", layers = 32, heads = 32, kv_heads = 8, width = 4096, ffn = 14336, context = 4096, vocabulary = 32000 }
data = { name = "tokens", path = "tokens.bin", tokenizer = "uint16" }
batch = { global = 512 }
optimizer = { name = "adamw", lr = 3e-4, clip = 1.0 }
run = { steps = 10 }
layout = { precision = "bf16" }
)";

struct Layout {
  int ranks, micro;
  std::vector<std::string> overrides;
};

std::vector<Layout> all_layouts() {
  std::vector<Layout> all;
  for (const int ranks : {32, 64, 128, 256, 512}) {
    for (const int tp : {1, 2, 4, 8}) {
      for (const int pp : {1, 2, 4, 8}) {
        for (const int micro : {1, 2}) {
          for (const char* sharded : {"none", "optimizer", "parameters"}) {
            for (const char* recompute : {"none", "attention", "blocks"}) {
              all.push_back({ranks,
                             micro,
                             {fmt::format("layout.tp={}", tp), fmt::format("layout.pp={}", pp),
                              fmt::format("layout.sequence_parallel={}", tp > 1), fmt::format("layout.shard_level={}", sharded),
                              fmt::format("layout.recompute={}", recompute),
                              fmt::format("layout.shard={}", sharded == std::string("none") ? 1 : 8),
                              fmt::format("batch.micro={}", micro)}});
            }
          }
        }
      }
    }
  }
  return all;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main() {
  const weft::Recipe base = weft::parse_recipe(kRecipe, "layouts");
  const auto costs = std::make_shared<weft::CostTable>(base);
  const weft::Hardware hardware = weft::nominal_hardware();
  int priced = 0, refused = 0;
  double best = 0.0;
  std::string refusal;
  const auto start = std::chrono::steady_clock::now();
  for (const Layout& layout : all_layouts()) {
    try {
      const weft::Recipe recipe = weft::parse_recipe(kRecipe, "layouts", layout.overrides);
      const weft::RecipeSimulation step = weft::recipe_simulation(recipe, layout.ranks, hardware, {}, costs);
      best = std::max(best, step.tokens_per_s / layout.ranks);
      ++priced;
    } catch (const weft::InputError& error) {
      if (refused++ == 0) refusal = error.what();
    }
    if (priced == 1000) break;
  }
  const nlohmann::json result = {{"layouts", priced},
                                 {"refused", refused},
                                 {"first_refusal", refusal},
                                 {"seconds", seconds_since(start)},
                                 {"measured", costs->num_measured()},
                                 {"most_tokens_per_s_of_a_rank", best}};
  std::cout << result.dump(2) << "\n";
}
