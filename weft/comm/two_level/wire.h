// Wire: how elements look on their way between hosts. All that crosses in a reduction goes through here: a compressor is
// another pack() and unpack().
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/comm/call/group_options.h"
#include "weft/comm/call/reduce_op.h"

namespace weft {

/// Of one call.
class Wire {
 public:
  /// For elements of type `exact`. Sums of float32 are rounded where `across` says so; all else crosses as it is.
  Wire(at::ScalarType exact, AcrossHosts across, ReduceOp op);

  bool is_exact() const { return packed_ == exact_; }
  /// Room for the packed form of so many elements.
  at::Tensor room(int64_t numel) const;
  /// The packed form of `elements`: themselves where that is exact.
  at::Tensor pack(const at::Tensor& elements) const;
  /// The elements that a packed form stands for: itself where that is exact.
  at::Tensor unpack(const at::Tensor& packed) const;

 private:
  at::ScalarType exact_, packed_;
};

}  // namespace weft
