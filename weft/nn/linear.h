// linear: a matrix product whose weight gradient goes straight to where it is kept.
#pragma once

#include "weft/nn/block.h"

namespace weft {

/// Returns x [..., in] times weight.value [out, in] transposed, plus bias.value [out] where given: [..., out].
/// Its backward overwrites weight.gradient when weight.value.grad() is undefined (and defines it), and adds to it otherwise; a
/// weight that is not bound to a flat buffer gets its gradient the usual way. Heeds Parameter::deferred.
at::Tensor linear(const at::Tensor& x, Parameter& weight, Parameter* bias);

}  // namespace weft
