// The parts of a layout that can be switched off one at a time, to find which of them changes a result: axes of the mesh, then
// choices beside it.
//
// All off is one device that computes the same micro-batches one after another. The micro-batch, the precision and the slots
// are no switches: they belong to what is computed. So does what is normalised together: without the axis, in one micro-batch
// (joined_batches.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/comm/mesh.h"
#include "weft/train/trainer/trainer_options.h"

namespace weft {

/// A mesh's axes, and what a trainer on it does.
struct LayoutSettings {
  std::vector<AxisSize> axes;  ///< as Mesh takes them
  TrainerOptions options;      ///< TrainerOptions::layout holds the choices
  /// Before an axis was switched off whose samples are normalised together (layout.sync_batch_norm); else empty.
  std::vector<AxisSize> whole = {};

  int ranks() const;         ///< the product of the axes
  std::string text() const;  ///< "pp 2 x dp 2"; "one device"
};

/// One part of a layout.
struct LayoutSwitch {
  std::string name;                          ///< "dp", or a key of recipes: "layout.recompute"
  bool is_axis = true;                       ///< of the mesh
  std::function<void(LayoutSettings&)> off;  ///< switches it off, with what cannot be without it
};

/// What is on in the settings: axes above size one, outermost first, then choices.
std::vector<LayoutSwitch> layout_switches(const LayoutSettings& settings);

/// The settings without these of their switches. A program is for the whole layout, a schedule that was made beforehand for so
/// many micro-batches a rank: where they do not fit any more the trainer makes its own, a schedule by its name.
LayoutSettings without(LayoutSettings settings, const std::vector<LayoutSwitch>& switches);

}  // namespace weft
