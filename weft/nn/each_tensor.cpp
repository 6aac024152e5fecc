#include "weft/nn/each_tensor.h"

#include <ATen/core/ivalue.h>

namespace weft {

void each_tensor(const c10::IValue& value, c10::function_ref<void(const at::Tensor& tensor)> of) {
  if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) each_tensor(tensor, of);
  } else if (value.isTensor() && value.toTensor().defined() && value.toTensor().has_storage()) {
    of(value.toTensor());
  }
}

}  // namespace weft
