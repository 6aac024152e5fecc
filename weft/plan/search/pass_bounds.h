// pass_bounds: least time and memory of each block's passes on one micro-batch.
//
// By the rules of simulate(): the compute lane is busy for the time of WorkTime, and for what the block's calls to other ranks
// add to it. Waits, launches and collectives beside it only add to that.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/plan/layout/layout.h"
#include "weft/program/program.h"
#include "weft/program/simulate/hardware.h"

namespace weft {

/// Least seconds that a block's passes hold the compute lane, and what it keeps.
struct PassBound {
  double forward = 0.0;     ///< without the recompute
  double recompute = 0.0;   ///< part of backward and input
  double backward = 0.0;    ///< whole, with the recompute; the loss is part of the last block's
  double input = 0.0;       ///< first part of a split backward, with the recompute; whole for blocks that do not split
  double weight = 0.0;      ///< second part
  bool is_tied = false;     ///< other blocks read its weights too
  int64_t kept_bytes = 0;   ///< activations from forward to backward
  int64_t moved_bytes = 0;  ///< part of them that offloading of activations moves: the input of a recomputed block after it
};

/// Bounds of a model's blocks.
struct PassBounds {
  std::vector<PassBound> blocks = {};
  double norm_s = 0.0;    ///< least seconds of the norm per element that a rank owns, before ranks exchange it
  double update_s = 0.0;  ///< the same of the update
};

/// Returns the bounds for these options and counts on a mesh of `world` ranks, of which cp and tp count, without recompute.
/// Throws InputError for links that the hardware does not know.
PassBounds pass_bounds(const ModelCost& cost, const LayoutOptions& options, const StepCounts& counts, int world,
                       const Hardware& hardware);

/// Returns the bounds with every k-th block recomputed (passes/recompute.h); 0: none. The last block of a stage may keep its
/// activations nevertheless, where its backward follows its forward.
PassBounds with_recompute(PassBounds bounds, const ModelCost& cost, int every);

}  // namespace weft
