// each_tensor: the tensors of an operator's argument or result.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

namespace weft {

/// Calls of(tensor) for the value, or each element of a list, if it is a tensor that has storage, real or meta.
void each_tensor(const c10::IValue& value, c10::function_ref<void(const at::Tensor& tensor)> of);

}  // namespace weft
