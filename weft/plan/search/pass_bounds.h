// pass_bounds: least time and memory of each block's passes on one micro-batch.
//
// Taken from a program of one pipeline rank by the rules of simulate(): the compute lane is busy for the time of WorkTime, and for
// what the block's calls to other ranks add to it. Waits, launches and collectives beside it only add to that.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/plan/layout/layout.h"
#include "weft/program/program.h"
#include "weft/program/simulate/hardware.h"

namespace weft {

/// Least seconds that a block's passes hold the compute lane, and what it keeps.
struct PassBound {
  double forward = 0.0;    ///< without the recompute
  double recompute = 0.0;  ///< part of backward and input
  double backward = 0.0;   ///< whole, with the recompute; the loss is part of the last block's
  double input = 0.0;      ///< first part of a split backward, with the recompute; whole for blocks that do not split
  double weight = 0.0;     ///< second part
  int64_t kept_bytes = 0;  ///< activations from forward to backward
};

/// Bounds of a model's blocks.
struct PassBounds {
  std::vector<PassBound> blocks = {};
  double update_s = 0.0;  ///< least seconds of norm and update per element that a rank owns
};

/// Returns the bounds for these options and counts on a mesh of `world` ranks, of which cp and tp count. Throws InputError for
/// links that the hardware does not know, and as build_program() does.
PassBounds pass_bounds(const ModelCost& cost, const LayoutOptions& options, const StepCounts& counts, int world,
                       const Hardware& hardware);

}  // namespace weft
