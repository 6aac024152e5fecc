// joined_batches: what fewer ranks train on in place of those of a layout that normalises samples together
// (layout.sync_batch_norm): the same samples must meet there.
#pragma once

#include "weft/train/compare/batch_source.h"
#include "weft/train/compare/layout_switches.h"

namespace weft {

/// Micro-batches for `options`, those of the trainer of `settings`. Where axes of the layout that its samples are normalised
/// over are switched off (LayoutSettings::whole), each is the k-th micro-batches of all ranks along them, side by side.
/// What draws random numbers for samples by their places in the run draws others there, where a rank has several micro-batches.
Trainer::Next joined_batches(const BatchSource& batches, const LoaderOptions& options, const LayoutSettings& settings);

}  // namespace weft
