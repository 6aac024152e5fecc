// zero_gradients: parameters that do not learn, because their gradient is exactly zero: behind dead ReLUs, or unused by the
// loss.
#pragma once

#include <string>
#include <vector>

#include "weft/train/trainer/trainer.h"

namespace weft {

/// A trained parameter, and the share of its gradient's elements that are exactly zero, 0 to 1.
struct ZeroGradient {
  std::string parameter;
  double share = 0.0;
};

/// Parameters at least half of whose gradient was exactly zero in the last step, in the model's order. Embeddings are left out,
/// whose unused rows have none. Reads each gradient once; on a device the host waits. Collective over the world; the same on
/// every rank.
std::vector<ZeroGradient> zero_gradients(Trainer& trainer);

}  // namespace weft
