// joined_batches: training data for runs on fewer ranks than a layout with layout.sync_batch_norm. Those
// runs must normalise the same samples together.
#pragma once

#include "weft/train/compare/batch_source.h"
#include "weft/train/compare/layout_switches.h"

namespace weft {

/// Micro-batches for `options` and the trainer of `settings`. If axes over which the layout normalises are switched off
/// (LayoutSettings::whole), micro-batch k joins those numbered k of all ranks along those axes. Per-sample random draws keyed
/// by position in the run then differ if a rank has several micro-batches.
Trainer::Next joined_batches(const BatchSource& batches, const LoaderOptions& options, const LayoutSettings& settings);

}  // namespace weft
