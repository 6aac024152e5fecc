#include "weft/train/run/to_device.h"

#include <utility>

namespace weft {

namespace {

/// Autograd keeps no tensor that was made in inference mode, so those are copied.
at::Tensor moved(const at::Tensor& x, at::Device device) {
  if (x.is_inference() && x.device() == device) return x.clone();
  // LibTorch keeps pinned memory from being given to others until the copy is done.
  const bool in_background = device.is_cuda() && x.is_cpu() && x.is_pinned();
  return x.to(device, x.scalar_type(), in_background);
}

}  // namespace

MicroBatch to_device(Batch batch, at::Device device) {
  for (at::Tensor& input : batch.inputs) input = moved(input, device);
  return {std::move(batch.inputs), batch.target.defined() ? moved(batch.target, device) : batch.target};
}

}  // namespace weft
