// compare_layouts: trains a few steps in a layout and on one device, on the same global batches, and reports whether losses,
// gradient norms and weights match after each step, the first difference, its size, and the part of the layout that causes it.
//
// One device computes the same micro-batches, in the same precision and slots, with the rest of the layout switched off
// (layout_switches.h). Verdicts:
// - bit-identical: every bit of every step.
// - within rounding: the layout may sum in another order (no reproducible slots, or the parts that split sums: tp, cp,
// loss_chunk), and that explains every deviation: at most 4 units in the last place of a parameter's largest element plus
// `tolerance` of its largest change since the start; `tolerance` of a loss or norm; or 4 times the effect of rounding noise in
// every block on one device (rounding_noise.h), the maximum over three runs and all steps, or over three more with wide noise.
// - different: anything else, and with reproducible slots any differing bit. Then parts of the layout are switched off one by
// one, mesh axes first, and together if switching off a single part never removes the difference.
//
// With slots, if only those parts may round, the layout is also compared with a layout that has only them and the choices that
// belong to them. There any differing bit counts, and the rest of the layout causes it.
//
// Costs two runs if nothing exceeds the tolerance, up to nine within rounding, and one or two more per part of the layout if
// different; the comparison with the parts that split sums costs two. Memory and traffic: layout_runs.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weft/comm/world.h"
#include "weft/train/compare/layout_comparison.h"
#include "weft/train/compare/layout_runs.h"

namespace weft {

/// Input of compare_layouts().
struct LayoutsToCompare {
  LayoutSettings layout;    ///< the mesh, of all ranks, and the trainer's options
  TrainedSteps trained;     ///< model, optimizer, batches
  double tolerance = 1e-5;  ///< relative rounding tolerance for any model
  bool exact = false;       ///< any differing bit counts, even if the layout does not promise equal bits
  /// Called on rank 0 before each run: "dp 2, without layout.recompute".
  std::function<void(const std::string& run)> on_run = {};
};

/// Compares. Collective over the world. Leaves the trained models behind. Throws a run's error with the layout of that run in
/// its text (CommError on ranks that only learn of it, including idle ones), and InputError if the mesh does not fit the world
/// or steps is below 1.
LayoutComparison compare_layouts(const World& world, const LayoutsToCompare& compared);

}  // namespace weft
