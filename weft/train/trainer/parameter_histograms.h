// parameter_histograms: the values of each trained parameter and of its gradient, counted over all ranks.
#pragma once

#include <functional>
#include <string>

#include "weft/report/records/record.h"
#include "weft/train/trainer/trainer.h"

namespace weft {

/// `name`: "weights/NAME" or "gradients/NAME".
using VisitHistogram = std::function<void(const std::string& name, ValueHistogram values)>;

/// Visits, on every rank, what the last step has left: master weights, and gradients of the mean loss, summed over all ranks
/// and not clipped, as float32, if TrainerOptions::histograms_every
/// has kept them; in the model's order. Each element is counted on one rank, whatever the layout, and sums have
/// no rounding over ranks, so equal values have equal histograms. A tensor without finite values is left out. Reads weights and
/// gradients once, on the host, which holds 37 KiB per trained parameter meanwhile and sums as much over all ranks. Collective
/// over the world.
void parameter_histograms(Trainer& trainer, const VisitHistogram& visit);

}  // namespace weft
