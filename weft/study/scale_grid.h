// ScaleGrid: the measurements of how a recipe scales: a few steps on several rank counts, in several layouts, with a constant
// global batch (strong) or one proportional to the ranks (weak). Nothing here trains.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/enum_names.h"

namespace weft {

/// The quantity held constant as ranks are added.
enum class ScaleMode : uint8_t {
  strong,  ///< the global batch
  weak,    ///< the samples per rank
};
/// Names of the modes.
inline constexpr EnumNames<ScaleMode, 2> kScaleModes("strong", "weak");

/// The measurements to make.
struct ScaleGrid {
  std::vector<int64_t> ranks = {};        ///< numbers of ranks
  std::vector<std::string> layouts = {};  ///< in the form of layout_overrides(); empty: "recipe"
  std::vector<ScaleMode> modes = {};      ///< modes, in the order of the results
  int64_t steps = 30;                     ///< steps per run; times exclude the first two
  int64_t repeats = 3;                    ///< runs per point
};

/// One measurement.
struct ScalePoint {
  ScaleMode mode = ScaleMode::strong;       ///< the quantity held constant
  std::string layout = {};                  ///< its name, as requested
  int ranks = 1;                            ///< ranks on this machine
  int64_t batch = 0;                        ///< samples per step
  std::vector<std::string> overrides = {};  ///< overrides of the recipe
  std::string refusal = {};                 ///< why the recipe cannot run like this; empty: it can

  /// Returns "strong-dp-r2", for file names.
  std::string name() const;
};

/// Groups the indices of points that need the same run: equal ranks and overrides, such as one rank in any layout.
std::vector<std::vector<size_t>> different_runs(const std::vector<ScalePoint>& points);

/// Returns the overrides of a run of `steps` that only shows how long a step takes: nothing is evaluated or saved.
std::vector<std::string> short_run_overrides(int64_t batch, int64_t steps);

/// Returns the overrides of a named layout: "recipe" (no overrides), "dp", "zero1", "zero2", "zero3" or "shard", "pp", "cp",
/// "tp", "master", "naive", each over all ranks (one rank divides nothing); or recipe keys,
/// "layout.tp=2+layout.recompute=blocks", where a value N stands for the number of ranks. Throws InputError for others.
std::vector<std::string> layout_overrides(const std::string& layout, int ranks);

/// Returns the points, ordered by mode, layout and ranks. The smallest rank count has the recipe's batch. Points that the
/// recipe rejects hold the reason. Throws InputError if it allows no point, or saves checkpoints.
std::vector<ScalePoint> scale_points(const std::string& recipe_path, const std::vector<std::string>& own_overrides,
                                     const ScaleGrid& grid);

}  // namespace weft
