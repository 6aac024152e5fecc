// Elements that lie side by side, for kernels that go through them one by one: where they are, and parts of them on several
// threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>

#include "weft/comm/threads/parallel_for.h"
#include "weft/nn/kernels/element.h"
#include "weft/nn/kernels/tensors.h"

namespace weft {

/// The elements of x, to be read; null where it is undefined or on the meta device.
inline const void* elements_of(const at::Tensor& x) { return !x.defined() || x.is_meta() ? nullptr : x.const_data_ptr(); }
/// The same, to be written.
inline void* elements_in(const at::Tensor& x) { return !x.defined() || x.is_meta() ? nullptr : x.data_ptr(); }

/// Calls the kernel for parts of all elements, which are as many as x has and of its type, each part on one thread. `read` and
/// `written` are the pointers of Rows, of which some may be null; none is called for on the meta device.
template <class Rows>
void run_side_by_side(void (*kernel)(Element, const Rows&), const at::Tensor& x, const Rows& all,
                      std::initializer_list<const void * Rows::*> read, std::initializer_list<void * Rows::*> written) {
  constexpr int64_t kGrain = 1 << 14;  // elements that a thread takes at least
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
