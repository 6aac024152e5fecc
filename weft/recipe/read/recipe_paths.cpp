#include "weft/recipe/read/recipe_paths.h"

#include <fmt/format.h>

#include <filesystem>

#include "weft/recipe/build/build_model.h"

namespace weft {

bool is_url(const std::string& path) { return path.find("://") != std::string::npos; }

std::string run_name(const Recipe& recipe) {
  return recipe.run.name.empty() ? std::filesystem::path(recipe.path).stem().string() : recipe.run.name;
}

std::string records_place(const Recipe& recipe) { return recipe.run.folder.empty() ? recipe.save.folder : recipe.run.folder; }

std::string records_folder(const Recipe& recipe) {
  const std::string place = records_place(recipe);
  return is_url(place) ? "" : place;
}

std::vector<RecipePath> recipe_paths(const Recipe& recipe) {
  std::vector<RecipePath> result;
  const auto add = [&](std::string key, const std::string& path, bool is_kept = false) {
    if (!path.empty()) result.push_back({.key = std::move(key), .path = path, .is_kept = is_kept});
  };
  add("model.path", recipe.model.path);
  if (has_loss_file(recipe.model)) add("model.loss", recipe.model.loss);
  add("model.weights", recipe.model.weights);
  add("model.weight_names", recipe.model.weight_names);
  add("data.path", recipe.data.path);
  add("data.evaluation_path", recipe.data.evaluation_path);
  for (size_t i = 0; i < recipe.data.mix.size(); ++i) {
    add(fmt::format("data.mix[{}].path", i), recipe.data.mix[i].path);
    add(fmt::format("data.mix[{}].evaluation_path", i), recipe.data.mix[i].evaluation_path);
  }
  for (size_t i = 0; i < recipe.evaluations.size(); ++i) add(fmt::format("evaluation[{}].path", i), recipe.evaluations[i].path);
  add("layout.schedule_file", recipe.layout.schedule_file);
  add("layout.profile", recipe.layout.profile);
  add("layout.offload_folder", recipe.layout.offload_folder);
  if (recipe.run.hardware.find_first_of("/.") != std::string::npos)
    add("run.hardware", recipe.run.hardware);  // not a shipped one
  if (recipe.run.resume != "auto" && recipe.run.resume != "none") add("run.resume", recipe.run.resume);
  add("run.folder", recipe.run.folder, true);
  add("save.folder", recipe.save.folder, true);
  add("save.upload", recipe.save.upload, true);
  return result;
}

}  // namespace weft
