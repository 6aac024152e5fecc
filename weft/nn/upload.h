// upload: a tensor of the host, on a device, without a wait.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Returns `host` on `device`: itself on the CPU, otherwise a copy from pinned memory, made when the device comes to it.
at::Tensor upload(const at::Tensor& host, at::Device device);

}  // namespace weft
