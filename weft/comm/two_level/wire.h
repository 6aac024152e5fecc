// Wire: element format of data that a reduction sends between hosts. A compressor would replace pack() and unpack().
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/comm/call/group_options.h"
#include "weft/comm/call/reduce_op.h"

namespace weft {

/// Format of one call.
class Wire {
 public:
  /// For elements of type `exact`. Sums of float32 are rounded if `across` says so; all other data is sent unchanged.
  Wire(at::ScalarType exact, AcrossHosts across, ReduceOp op);

  bool is_exact() const { return packed_ == exact_; }
  /// Allocates room for `numel` packed elements.
  at::Tensor room(int64_t numel) const;
  /// Returns the packed form of `elements`: the same tensor if exact.
  at::Tensor pack(const at::Tensor& elements) const;
  /// Returns the elements of a packed form: the same tensor if exact.
  at::Tensor unpack(const at::Tensor& packed) const;

 private:
  at::ScalarType exact_, packed_;
};

}  // namespace weft
