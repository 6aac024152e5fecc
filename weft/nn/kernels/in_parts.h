// Contiguous elements, for element-wise kernels: their addresses, and their division into parts on several threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>

#include "weft/comm/threads/parallel_for.h"
#include "weft/nn/kernels/element.h"
#include "weft/nn/kernels/tensors.h"

namespace weft {

/// Pointer to the elements of x, for reading; null if undefined or on the meta device.
inline const void* elements_of(const at::Tensor& x) { return !x.defined() || x.is_meta() ? nullptr : x.const_data_ptr(); }
/// The same, for writing.
inline void* elements_in(const at::Tensor& x) { return !x.defined() || x.is_meta() ? nullptr : x.data_ptr(); }

/// Calls the kernel for x.numel() elements of x's type, in parts of one thread each. `read` and `written` are the pointers of
/// Rows, some of which may be null. On the meta device nothing is called.
template <class Rows>
void run_in_parts(void (*kernel)(Element, const Rows&), const at::Tensor& x, const Rows& all,
                  std::initializer_list<const void * Rows::*> read, std::initializer_list<void * Rows::*> written) {
  constexpr int64_t kGrain = 1 << 14;  // minimum elements per thread
  if (x.is_meta()) return;
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
