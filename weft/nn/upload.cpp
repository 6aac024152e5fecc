#include "weft/nn/upload.h"

namespace weft {

at::Tensor upload(const at::Tensor& host, at::Device device) {
  if (device.is_cpu()) return host;
  return host.pin_memory().to(device, /*non_blocking=*/true);
}

}  // namespace weft
