// host_values: values of a tensor on a device that the host needs too, such as where documents begin, read at most once.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Notes that `host` has the values of x, which is on a device and of the same shape, until x's memory is freed or written
/// again. Nobody may change `host`.
void note_host_values(const at::Tensor& x, const at::Tensor& host);

/// Returns the values noted for x, or for a tensor that it is a view of, contiguous; undefined if there are none.
at::Tensor noted_values(const at::Tensor& x);

/// Returns x's values on the CPU, contiguous: those noted, otherwise a copy, for which the host waits and which is noted.
at::Tensor host_values(const at::Tensor& x);

/// Throws InputError while a step is captured on the device: replayed, it would have the values of the step it is captured in.
void refuse_captured_values(at::Device device);

}  // namespace weft
