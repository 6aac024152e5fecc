#include "weft/nn/kernel_record.h"

#include <ATen/record_function.h>

#include <vector>

namespace weft {

void record_kernel(const char* name, std::initializer_list<at::Tensor> tensors) {
  RECORD_FUNCTION(name, std::vector<c10::IValue>(tensors.begin(), tensors.end()));
}

}  // namespace weft
