#include "weft/comm/two_level/wire.h"

#include <ATen/ops/empty.h>

namespace weft {

Wire::Wire(at::ScalarType exact, AcrossHosts across, ReduceOp op)
    : exact_(exact),
      packed_(across == AcrossHosts::bf16 && exact == at::kFloat && op == ReduceOp::sum ? at::kBFloat16 : exact) {}

at::Tensor Wire::room(int64_t numel) const { return at::empty({numel}, at::TensorOptions(packed_)); }
at::Tensor Wire::pack(const at::Tensor& elements) const { return is_exact() ? elements : elements.to(packed_); }
at::Tensor Wire::unpack(const at::Tensor& packed) const { return is_exact() ? packed : packed.to(exact_); }

}  // namespace weft
