// CustomOptimizer: an optimizer of one's own among the others.
#pragma once

#include <memory>

namespace weft {

class ElementWiseUpdate;  // element_wise_update.h

/// An optimizer whose update is the user's, element by element. State: 4 bytes a parameter for each name of state that it has.
struct CustomOptimizer {
  double lr = 0.0;                                       ///< learning rate, where no schedule tells it
  double weight_decay = 0.0;                             ///< what the update is told, but of biases and norms
  std::shared_ptr<const ElementWiseUpdate> update = {};  ///< on all ranks one of the same class and numbers
};

}  // namespace weft
