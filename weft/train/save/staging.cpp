#include "weft/train/save/staging.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <numeric>

namespace weft {

void Staging::add(const StatePart& part) {
  if (part.runs.empty()) return;
  c10::NoGradGuard no_grad;
  int64_t begin = part.runs.front().memory_begin, end = begin;
  for (const StateRun& run : part.runs) {
    begin = std::min(begin, run.memory_begin);
    end = std::max(end, run.memory_begin + run.numel);
  }
  const size_t index = parts_.size();
  if (memory_.size() == index) memory_.emplace_back();
  at::Tensor& memory = memory_[index];
  const at::Tensor source = part.memory.narrow(0, begin, end - begin);
  if (!memory.defined() || memory.numel() != source.numel() || memory.scalar_type() != source.scalar_type()) {
    const bool on_host = source.is_cpu();
    memory = at::empty({source.numel()}, at::TensorOptions(source.scalar_type()).pinned_memory(!on_host));
  }
  memory.copy_(source);
  StatePart& copy = parts_.emplace_back(StatePart{part.name, part.shape, part.runs, memory});
  for (StateRun& run : copy.runs) run.memory_begin -= begin;
}

void Staging::clear() { parts_.clear(); }

int64_t Staging::bytes() const {
  return std::accumulate(parts_.begin(), parts_.end(), int64_t{0},
                         [](int64_t sum, const StatePart& part) { return sum + static_cast<int64_t>(part.memory.nbytes()); });
}

}  // namespace weft
