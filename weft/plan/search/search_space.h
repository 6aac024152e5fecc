// SearchSpace: the layouts that a search compares, as the values of each key.
//
// Layouts that differ only in keys without effect (a schedule on one pipeline rank) are in it once. Offloading is in it only
// where the layout without it does not fit: copies add work and waits to the same instructions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/plan/search/layout_choice.h"
#include "weft/program/simulate/hardware.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// The values of each key, and of keys that a search keeps the one in the recipe.
struct SearchSpace {
  Recipe base;  ///< its other keys hold for all layouts
  int world = 1;
  std::vector<int64_t> micro = {};
  std::vector<int> pp = {}, cp = {}, tp = {};
  std::vector<bool> sequence_parallel = {};                ///< with tp
  std::vector<ContextMethod> attention_over = {};          ///< with cp
  std::vector<Precision> precision = {};                   ///< one, unless it is varied
  std::vector<RecomputeChoice> recompute = {};             ///< per block
  std::vector<std::string> schedules = {}, stages = {};    ///< with pp
  std::vector<int> chunks = {};                            ///< with schedule = "interleaved"
  std::vector<ShardLevel> levels = {};                     ///< `none` with replicas only
  std::vector<bool> reshard = {};                          ///< with level parameters
  std::vector<int> prefetch = {};                          ///< with levels gradients and parameters
  std::optional<int64_t> dp = {}, shard = {}, inner = {};  ///< kept
  int ranks_per_host = 1;
  std::string offload_to = "host";  ///< from a CPU: "disk", as its memory is the host's
  bool offloads = false;            ///< the hardware has memory to offload to
  StateChoice kept_offload = {};    ///< offload of all layouts
  bool keeps_optimizer = false, keeps_parameters = false, keeps_activations = false;  ///< their offload is kept
};

/// Facts of the recipe's model that limit its space.
struct SpaceFacts {
  int blocks = 1;
  int64_t tokens = 0;                 ///< per sample; 0: it reads images
  bool recomputes_attention = false;  ///< layout.recompute = "attention" changes its costs
  std::optional<int64_t> micro = {};  ///< the only micro-batch: another would change results, or has no measured times
};

/// The key that changes results and that a search may vary.
inline constexpr std::string_view kVariedKey = "layout.precision";
/// Returns why no search can keep a key: recipes have none of that name; empty if they do.
std::string why_not_kept(const std::string& key);

/// Returns the space of a recipe. `kept` and `varied` as in SearchOptions; throws InputError for unknown ones, and for kept
/// values that no search can keep, or that the hardware has no times of.
SearchSpace search_space(const Recipe& recipe, int world, const Hardware& hardware, const SpaceFacts& facts,
                         const std::vector<std::string>& kept, const std::vector<std::string>& varied);

/// A line per key with its values: "layout.tp: 1, 2, 4, 8".
std::vector<std::string> lines_of(const SearchSpace& space);

std::vector<BlockChoice> block_choices(const SearchSpace& space);
std::vector<PipelineChoice> pipeline_choices(const SearchSpace& space, const BlockChoice& blocks);
/// Without further offloading.
std::vector<StateChoice> state_choices(const SearchSpace& space, const BlockChoice& blocks, const PipelineChoice& pipeline);
/// The same states with more offloaded, for a layout that does not fit.
std::vector<StateChoice> offloaded(const SearchSpace& space, const LayoutChoice& choice);

/// Returns the space's recipe with this layout.
Recipe recipe_of(const SearchSpace& space, const LayoutChoice& choice);

}  // namespace weft
