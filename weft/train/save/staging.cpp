#include "weft/train/save/staging.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace weft {

void Staging::add(const StatePart& part) {
  if (part.runs.empty() && part.whole_numel() > 0) return;  // a tensor without elements still exists
  c10::NoGradGuard no_grad;
  const StatePart from = narrow_to_runs(part);
  const at::Tensor& source = from.memory;
  const size_t index = parts_.size();
  if (memory_.size() == index) memory_.emplace_back();
  at::Tensor& memory = memory_[index];
  const bool on_host = source.is_cpu();
  if (!memory.defined() || memory.numel() != source.numel() || memory.scalar_type() != source.scalar_type()) {
    memory = at::empty({source.numel()}, at::TensorOptions(source.scalar_type()).pinned_memory(!on_host));
  }
  memory.copy_(source, /*non_blocking=*/!on_host);
  if (!on_host) stream_ = c10::impl::VirtualGuardImpl(source.device().type()).getStream(source.device());
  parts_.push_back({from.name, from.shape, from.runs, memory});
}

void Staging::finish() {
  if (stream_) stream_->synchronize();
  stream_.reset();
}

void Staging::clear() { parts_.clear(); }

}  // namespace weft
