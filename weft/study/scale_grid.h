// ScaleGrid: what measures how far a recipe scales: a few steps of it on several numbers of ranks, in several layouts, with the
// global batch as it is (strong) or in proportion to the ranks (weak). Nothing here trains.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/enum_names.h"

namespace weft {

/// What stays as ranks are added.
enum class ScaleMode : uint8_t {
  strong,  ///< the global batch
  weak,    ///< the samples of a rank
};
/// The words for it.
inline constexpr EnumNames<ScaleMode, 2> kScaleModes("strong", "weak");

/// What is measured.
struct ScaleGrid {
  std::vector<int64_t> ranks = {};        ///< numbers of ranks
  std::vector<std::string> layouts = {};  ///< as layout_overrides() takes them; empty: "recipe"
  std::vector<ScaleMode> modes = {};      ///< in this order
  int64_t steps = 30;                     ///< of each run; times are of all but the first two
  int64_t repeats = 3;                    ///< runs of each point
};

/// One measurement.
struct ScalePoint {
  ScaleMode mode = ScaleMode::strong;       ///< what stays as ranks are added
  std::string layout = {};                  ///< its name, as asked for
  int ranks = 1;                            ///< on this machine
  int64_t batch = 0;                        ///< samples a step
  std::vector<std::string> overrides = {};  ///< of the recipe
  std::string refusal = {};                 ///< why the recipe does not go like this; empty: it does

  /// "strong-dp-r2", for files.
  std::string name() const;
};

/// The points of each different run, by their places: those of equal ranks and overrides are one, as one rank in any layout is.
std::vector<std::vector<size_t>> different_runs(const std::vector<ScalePoint>& points);

/// The overrides of a layout by its name: "recipe" (none), "dp", "zero1", "zero2", "zero3" or "shard", "pp", "cp", "tp",
/// "master", "naive", each over all ranks, one of which has nothing to divide; or keys of the recipe,
/// "layout.tp=2+layout.recompute=blocks", where a value N stands for the number of ranks. Throws InputError for another one.
std::vector<std::string> layout_overrides(const std::string& layout, int ranks);

/// The points, by mode, then layout, then ranks. The recipe's batch is that of the smallest number of ranks. Points that the
/// recipe refuses say why. Throws InputError where it refuses all of them, or saves checkpoints.
std::vector<ScalePoint> scale_points(const std::string& recipe_path, const std::vector<std::string>& own_overrides,
                                     const ScaleGrid& grid);

}  // namespace weft
