#include "weft/study/scale_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/base/nearest.h"
#include "weft/base/printable.h"
#include "weft/plan/make_plan.h"
#include "weft/program/axis_names.h"
#include "weft/recipe/read/key_rules.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/recipe/read/recipe_keys.h"
#include "weft/recipe/read/recipe_values.h"

namespace weft {
namespace {

/// Sets every axis to one, except the given sizes.
std::vector<std::string> mesh_overrides(const std::map<std::string, int>& sizes, const std::string& shard_level = "none",
                                        const std::string& style = "mesh") {
  std::vector<std::string> overrides = {"layout.style=" + style, "layout.shard_level=" + shard_level};
  for (const char* axis : kAxisNames) {
    const auto size = sizes.find(axis);
    overrides.push_back(fmt::format("layout.{}={}", axis, size == sizes.end() ? 1 : size->second));
  }
  return overrides;
}

/// Returns true for a named layout, rather than keys or the recipe's own.
bool is_named_layout(const std::string& layout) { return layout.find('=') == std::string::npos && layout != "recipe"; }

std::vector<std::string> split_keys(const std::string& layout, int ranks) {
  std::vector<std::string> keys(1);
  for (const char c : layout) {
    if (c == '+') {
      keys.emplace_back();
    } else {
      keys.back() += c;
    }
  }
  for (std::string& key : keys) {
    if (key.ends_with("=N")) key.replace(key.size() - 1, 1, fmt::to_string(ranks));
  }
  return keys;
}

/// Layout keys that only the recipe's own layout uses; they are left out of the other.
std::vector<std::string> left_out_keys(Recipe recipe, const std::vector<std::string>& overrides) {
  const std::vector<FileKey> keys = recipe_keys(recipe);
  for (const std::string& override : overrides) read_override(override, keys);
  const std::map<std::string, std::string> defaults = recipe_values(Recipe());
  std::vector<std::string> left_out;
  for (const std::string& key : unread_keys(recipe)) {
    if (key.starts_with("layout.")) left_out.push_back(key + "=" + defaults.at(key));
  }
  return left_out;
}

}  // namespace

// No warm-up, which would need more steps.
std::vector<std::string> short_run_overrides(int64_t batch, int64_t steps) {
  return {fmt::format("batch.global={}", batch),
          fmt::format("run.steps={}", steps),
          "run.evaluate_every=0",
          "run.target=\"\"",
          "run.restarts=0",
          "optimizer.warmup=0",
          "optimizer.warmup_from=zero"};
}

std::string ScalePoint::name() const {
  std::string safe = layout;
  for (char& c : safe) {
    if (c == '/' || c == '"') c = '_';
  }
  constexpr size_t kLongest = 100;  // the length limit of file names made from it
  if (safe.size() > kLongest) safe = fmt::format("{}-{:016x}", safe.substr(0, kLongest), fnv1a(layout));
  return fmt::format("{}-{}-r{}", kScaleModes.of(mode), safe, ranks);
}

std::vector<std::string> layout_overrides(const std::string& layout, int ranks) {
  if (layout.find('=') != std::string::npos) return split_keys(layout, ranks);
  if (layout == "recipe") return {};
  const bool shards = ranks > 1;
  if (layout == "zero1") return mesh_overrides({{"shard", ranks}}, shards ? "optimizer" : "none");
  if (layout == "zero2") return mesh_overrides({{"shard", ranks}}, shards ? "gradients" : "none");
  if (layout == "zero3" || layout == "shard") return mesh_overrides({{"shard", ranks}}, shards ? "parameters" : "none");
  if (layout == "master" || layout == "naive") return mesh_overrides({{"pp", ranks}}, "none", layout);
  for (const char* axis : kAxisNames) {
    if (layout == axis) return mesh_overrides({{axis, ranks}});
  }
  const std::vector<std::string> names = {"recipe", "dp", "zero1", "zero2",  "zero3", "shard",
                                          "pp",     "cp", "tp",    "master", "naive"};
  throw InputError(fmt::format("unknown layout '{}'; did you mean '{}'? Or keys, as layout.tp=2+layout.recompute=blocks",
                               shortened(layout), nearest(layout, names)));
}

std::vector<std::vector<size_t>> different_runs(const std::vector<ScalePoint>& points) {
  std::vector<std::vector<size_t>> runs;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!points[i].refusal.empty()) continue;
    const auto same = std::find_if(runs.begin(), runs.end(), [&](const std::vector<size_t>& run) {
      return points[run.front()].ranks == points[i].ranks && points[run.front()].overrides == points[i].overrides;
    });
    if (same == runs.end()) {
      runs.push_back({i});
    } else {
      same->push_back(i);
    }
  }
  return runs;
}

std::vector<ScalePoint> scale_points(const std::string& recipe_path, const std::vector<std::string>& own_overrides,
                                     const ScaleGrid& grid) {
  const Recipe recipe = load_recipe(recipe_path, own_overrides);
  if (!recipe.save.folder.empty()) {
    throw InputError(fmt::format("{}: a measurement saves no checkpoints; leave out the section [save]", recipe_path));
  }
  if (!recipe.batch.ramp.empty()) {
    throw InputError(fmt::format("{}: a measurement has one batch size; leave out batch.ramp", recipe_path));
  }
  const std::set<int64_t> ranks(grid.ranks.begin(), grid.ranks.end());
  std::vector<ScalePoint> points;
  for (const ScaleMode mode : grid.modes) {
    for (const std::string& layout : grid.layouts.empty() ? std::vector<std::string>{"recipe"} : grid.layouts) {
      for (const int64_t number : ranks) {
        ScalePoint point{.mode = mode, .layout = layout, .ranks = static_cast<int>(number), .batch = recipe.batch.global};
        if (mode == ScaleMode::weak) point.batch = recipe.batch.global * number / *ranks.begin();
        point.overrides = short_run_overrides(point.batch, grid.steps);
        const std::vector<std::string> chosen = layout_overrides(layout, point.ranks);
        point.overrides.insert(point.overrides.end(), chosen.begin(), chosen.end());
        if (is_named_layout(layout)) {
          const std::vector<std::string> left_out = left_out_keys(recipe, point.overrides);
          point.overrides.insert(point.overrides.end(), left_out.begin(), left_out.end());
        }
        std::vector<std::string> all = own_overrides;
        all.insert(all.end(), point.overrides.begin(), point.overrides.end());
        try {
          check_plan(load_recipe(recipe_path, all), point.ranks);
        } catch (const InputError& error) {
          point.refusal = error.what();
        }
        points.push_back(std::move(point));
      }
    }
  }
  const auto is_refused = [](const ScalePoint& point) { return !point.refusal.empty(); };
  if (!points.empty() && std::all_of(points.begin(), points.end(), is_refused)) throw InputError(points.front().refusal);
  return points;
}

}  // namespace weft
