// Calls into user code: a block's forward and the model's loss, with keyed random numbers (engine/keyed_calls.h) and errors
// that name the failing block and its input tensors.
#pragma once

#include <vector>

#include "weft/nn/flat/flat_model.h"
#include "weft/nn/id_checks.h"

namespace weft {

/// Calls into user code on one rank.
class BlockCalls {
 public:
  explicit BlockCalls(FlatModel& model);

  /// Returns the block's outputs. Throws InputError if forward changed an input, a parameter or a constant buffer in place, or
  /// read a parameter missing from parameters() (checked in the first call); names the block in forward's own errors.
  Tensors forward(int block, const Tensors& inputs, const Context& context);

  /// Returns the loss of these outputs, always defined; `keyed` is the context that keys its random draws.
  LossValue loss(const Loss& loss, const Tensors& outputs, const at::Tensor& target, const Context& context,
                 const Context& keyed);

  /// Ids out of range that forwards and losses found on a device.
  IdChecks ids;

 private:
  Tensors named_forward(int block, const Tensors& inputs, const Context& context);
  Tensors first_forward(int block, const Tensors& inputs, const Context& context);

  FlatModel& model_;
  std::vector<bool> checked_;  ///< by block: its first call has been checked
};

}  // namespace weft
