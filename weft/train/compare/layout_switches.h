// Parts of a layout that can be switched off one by one, to find the one that changes a result: axes of the mesh, then further
// choices.
//
// With all off, one device computes the same micro-batches in sequence. The micro-batch, the precision and the slots are not
// switches: they define what is computed. So does the set of samples normalised together: with its axis off, one micro-batch
// holds the set (joined_batches.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/comm/mesh.h"
#include "weft/train/trainer/trainer_options.h"

namespace weft {

/// A mesh's axes, and the options of a trainer on it.
struct LayoutSettings {
  std::vector<AxisSize> axes;  ///< as passed to Mesh
  TrainerOptions options;      ///< TrainerOptions::layout holds the choices
  /// The axes before one with joint normalisation (layout.sync_batch_norm) was switched off; else empty.
  std::vector<AxisSize> whole = {};

  int ranks() const;         ///< the product of the axes
  std::string text() const;  ///< "pp 2 x dp 2"; "one device"
};

/// One part of a layout.
struct LayoutSwitch {
  std::string name;                          ///< "dp", or a key of recipes: "layout.recompute"
  bool is_axis = true;                       ///< a mesh axis
  std::function<void(LayoutSettings&)> off;  ///< switches it off, with everything that depends on it
};

/// The active parts of the settings: axes above size one, outermost first, then choices.
std::vector<LayoutSwitch> layout_switches(const LayoutSettings& settings);

/// Returns the settings without these switches. A program fits only the whole layout, and a given schedule fits only one number
/// of micro-batches per rank. If they no longer fit, the trainer makes its own, with a schedule of the same name.
LayoutSettings without(LayoutSettings settings, const std::vector<LayoutSwitch>& switches);

}  // namespace weft
