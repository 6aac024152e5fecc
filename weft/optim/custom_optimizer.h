// CustomOptimizer: a custom optimizer alongside the built-in ones.
#pragma once

#include <memory>

namespace weft {

class ElementWiseUpdate;  // element_wise_update.h

/// An optimizer with a user-defined, element-wise update. State: 4 bytes per parameter for each of the update's state names.
struct CustomOptimizer {
  double lr = 0.0;                                       ///< learning rate, if no schedule sets it
  double weight_decay = 0.0;                             ///< passed to the update; 0 for biases and norms
  std::shared_ptr<const ElementWiseUpdate> update = {};  ///< same class and numbers on all ranks
};

}  // namespace weft
