// kernel_record: shows calls of weft's CPU kernels to those who observe operators, as the dispatcher shows it LibTorch's.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>

namespace weft {

/// Notes a call of the kernel `name` ("weft::norm"; "..._backward" for a gradient), which reads or writes the elements of the
/// defined ones of `tensors`. Costs nothing unless someone observes this thread (nn/cost/observation.h counts their bytes).
void record_kernel(const char* name, std::initializer_list<at::Tensor> tensors);

}  // namespace weft
