// How long `weft plan` takes: the search for the layout of a recipe on many ranks, or of the Llama models of 405 and 70 billion
// parameters (Dubey et al. 2024, arXiv:2407.21783) without one. Prints a line of JSON.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "weft/plan/search/layout_search.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/recipe/toml/hardware_file.h"

namespace {

std::string llama(int layers, int width, int heads, int ffn) {
  return fmt::format(
      "model = {{ name = \"llama\", layers = {}, width = {}, heads = {}, kv_heads = 8, ffn = {}, vocabulary = 128256, "
      "context = 8192 }}\ndata = {{ name = \"text\", path = \"none\" }}\nbatch = {{ global = 2048 }}\n"
      "layout = {{ precision = \"bf16\" }}\noptimizer = {{ name = \"adamw\", lr = 1e-4, clip = 1.0 }}\nrun = {{ steps = 1 }}\n",
      layers, width, heads, ffn);
}

weft::Recipe recipe_of(const std::string& model, const std::vector<std::string>& overrides) {
  if (model == "405b") return weft::parse_recipe(llama(126, 16384, 128, 53248), model, overrides);
  if (model == "70b") return weft::parse_recipe(llama(80, 8192, 64, 28672), model, overrides);
  return weft::load_recipe(model, overrides);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times the search for a layout");
  std::string model = "405b", hardware = "hardware/h100_node.toml";
  int ranks = 16384;
  weft::SearchOptions options;
  std::vector<std::string> overrides;
  app.add_option("model", model, "405b, 70b or a recipe");
  app.add_option("-n,--ranks", ranks, "Number of ranks");
  app.add_option("--hardware", hardware, "Hardware file");
  app.add_option("--most", options.most, "Layouts to find");
  app.add_option("--keep", options.kept, "Keys to keep");
  app.add_option("--set", overrides, "Overrides of the recipe");
  CLI11_PARSE(app, argc, argv);
  const weft::SearchResult result =
      weft::search_layouts(recipe_of(model, overrides), ranks, weft::load_hardware(hardware), options);
  nlohmann::ordered_json best = nlohmann::ordered_json::array(), left_out = nlohmann::ordered_json::array();
  for (const weft::LayoutForecast& layout : result.best) {
    best.push_back({{"layout", layout.text},
                    {"step_s", layout.step_s},
                    {"mfu", layout.mfu},
                    {"memory_bytes", layout.memory_bytes},
                    {"limited_by", layout.limited_by}});
  }
  for (const weft::LeftOut& group : result.left_out) {
    left_out.push_back({{"text", group.text}, {"why", group.why}, {"layouts", group.layouts}});
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const nlohmann::ordered_json json = {{"model", model},
                                       {"ranks", ranks},
                                       {"seconds", result.seconds},
                                       {"peak_bytes", int64_t{usage.ru_maxrss} * 1024},
                                       {"layouts", result.layouts},
                                       {"illegal", result.illegal},
                                       {"over_memory", result.over_memory},
                                       {"bounded", result.bounded},
                                       {"simulated", result.simulated},
                                       {"best", best},
                                       {"left_out", left_out}};
  fmt::print("{}\n", json.dump());
}
