// Operators that the device has kernels of its own for.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <optional>

namespace weft::checked_device {

at::Tensor empty(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
                 std::optional<c10::Device> device, std::optional<bool> pinned, std::optional<c10::MemoryFormat> format);
at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout> layout, std::optional<c10::Device> device, std::optional<bool> pinned);

/// On the current stream of the target's device. The host waits unless `non_blocking` and its memory is pinned.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking);
at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to);

void record_stream(at::Tensor& tensor, c10::Stream stream);

}  // namespace weft::checked_device
