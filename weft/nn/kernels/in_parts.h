// Contiguous elements, for element-wise kernels: their addresses, and their division into parts on several threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>

#include "weft/comm/threads/parallel_for.h"
#include "weft/nn/kernels/element.h"
#include "weft/nn/kernels/kernel_table.h"
#include "weft/nn/kernels/tensors.h"

namespace weft {

/// Pointer to the elements of x, for reading; null if it has none.
inline const void* elements_of(const at::Tensor& x) { return has_elements(x) ? x.const_data_ptr() : nullptr; }
/// The same, for writing.
inline void* elements_in(const at::Tensor& x) { return has_elements(x) ? x.data_ptr() : nullptr; }

/// Calls the kernel for x.numel() elements of x's type, in parts of one thread each. `read` and `written` are the pointers of
/// Rows, some of which may be null. Nothing is called if x has no elements.
template <class Rows>
void run_in_parts(void (*kernel)(Element, const Rows&), const at::Tensor& x, const Rows& all,
                  std::initializer_list<const void * Rows::*> read, std::initializer_list<void * Rows::*> written) {
  constexpr int64_t kGrain = 1 << 14;  // minimum elements per thread
  if (!has_elements(x)) return;
  const auto bytes = static_cast<int64_t>(x.element_size());
  parallel_for(x.numel(), kGrain, [&](int64_t begin, int64_t end) {
    Rows part = all;
    for (const void* Rows::*data : read) {
      if (part.*data) part.*data = static_cast<const char*>(part.*data) + begin * bytes;
    }
    for (void* Rows::*data : written) {
      if (part.*data) part.*data = static_cast<char*>(part.*data) + begin * bytes;
    }
    part.count = end - begin;
    kernel(element_of(x), part);
  });
}

}  // namespace weft
