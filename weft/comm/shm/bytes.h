// Tensors as bytes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstring>

#include "weft/comm/call/call.h"

namespace weft::shm {

inline std::byte* data_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

inline void copy_bytes(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<size_t>(bytes));
}

inline int64_t item_bytes(const Call& call) { return static_cast<int64_t>(c10::elementSize(call.dtype)); }

}  // namespace weft::shm
