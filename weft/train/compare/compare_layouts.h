// compare_layouts: trains a few steps in a layout and on one device, on the same global batches, and tells whether losses,
// gradient norms and weights are the same after each, what differs first, by how much, and which part of the layout does it.
//
// One device computes the same micro-batches, in the same precision and slots, with all else of the layout switched off
// (layout_switches.h). What is found:
// - bit-identical: every bit of every step.
// - within rounding: the layout adds up in another order, as it may without reproducible slots and with axes that split sums
//   (tp, cp), and nothing is further off than that explains: a parameter by 4 units in the last place of its largest element
//   and `tolerance` of its largest change since the start; a loss or norm by `tolerance` of itself; or either by 4 times what
//   rounding noise in every block makes of it on one device (rounding_noise.h), the most of three runs and of all steps.
// - different: all else, and with reproducible slots any bit. Then parts of the layout are switched off one at a time, axes and
//   then choices, and together where none alone makes the difference go.
//
// With slots, where tp or cp is all that may round, the layout is then compared with one of those axes alone, with the choices
// that belong to them: there any other bit is different, and the rest of the layout does it.
//
// Costs two runs where nothing differs by more than the tolerance, up to six where it is rounding, and where it is different
// one or two more for each part of the layout; the comparison with tp and cp alone two. Memory and
// traffic are told in layout_runs.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weft/comm/world.h"
#include "weft/train/compare/layout_comparison.h"
#include "weft/train/compare/layout_runs.h"

namespace weft {

/// What compare_layouts() compares.
struct LayoutsToCompare {
  LayoutSettings layout;    ///< the mesh, of all ranks, and the trainer's options
  TrainedSteps trained;     ///< model, optimizer, batches
  double tolerance = 1e-5;  ///< relative: what rounding may make, whatever the model
  bool exact = false;       ///< any other bit is a difference, also where the layout does not promise the same ones
  /// Called on rank 0 before each run: "dp 2, without layout.recompute".
  std::function<void(const std::string& run)> on_run = {};
};

/// Compares. Collective over the world. Leaves the trained models behind. Throws what a run throws, with the layout of that run
/// in its text: CommError on the ranks that only hear of it, idle ones too; InputError where the mesh is not the world's, or
/// where steps is below 1.
LayoutComparison compare_layouts(const World& world, const LayoutsToCompare& compared);

}  // namespace weft
