// measure_layouts: trains layouts that a search has found, on this machine, to compare their steps with what was predicted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/cli/output/plan_text.h"
#include "weft/plan/search/layout_forecast.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// How layouts are measured.
struct MeasureOptions {
  std::string recipe = {};                  ///< path
  std::vector<std::string> overrides = {};  ///< of the command line
  int ranks = 1;                            ///< on this machine
  int64_t steps = 20;                       ///< per run; times exclude the first two
  int rounds = 2;                           ///< runs per layout, by turns
  std::string folder = {};                  ///< for summaries and logs; locked meanwhile
};

/// Trains each layout and returns its step, in their order. A layout that fails is a row with the reason. Throws as
/// check_measurable() does, and Error if a signal ended the runs.
std::vector<MeasuredLayout> measure_layouts(const Recipe& recipe, const std::vector<LayoutForecast>& layouts,
                                            const MeasureOptions& options);

/// Throws InputError for a recipe that saves checkpoints, which runs that only measure do not, and for more ranks than start
/// here.
void check_measurable(const Recipe& recipe, int ranks);

/// Throws InputError for hardware of another kind than the recipe trains on here; `path` is its file.
void check_is_here(const Recipe& recipe, const Hardware& hardware, const std::string& path);

/// Index of the fastest measured layout; empty if none was measured.
std::optional<size_t> fastest_measured(const std::vector<MeasuredLayout>& measured);

}  // namespace weft
