// Calls of what a model brings: a block's forward and the model's loss, with random numbers keyed (engine/keyed_calls.h) and
// errors that name what failed and the tensors that it was given.
#pragma once

#include <vector>

#include "weft/nn/flat/flat_model.h"

namespace weft {

/// Those of one rank.
class BlockCalls {
 public:
  explicit BlockCalls(FlatModel& model);

  /// The block's outputs. Throws InputError where it changed an input, a parameter or a constant buffer in place, where it read
  /// a parameter that its parameters() lack (looked at in its first call), and what it throws itself, which then names it.
  Tensors forward(int block, const Tensors& inputs, const Context& context);

  /// The loss of these outputs, which is defined; `keyed` is what it draws by.
  LossValue loss(const Loss& loss, const Tensors& outputs, const at::Tensor& target, const Context& context,
                 const Context& keyed) const;

 private:
  Tensors named_forward(int block, const Tensors& inputs, const Context& context);
  Tensors first_forward(int block, const Tensors& inputs, const Context& context);

  FlatModel& model_;
  std::vector<bool> looked_at_;  ///< by block
};

}  // namespace weft
