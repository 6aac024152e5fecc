// StatePart: a rank's part of a tensor of a run's state: its elements and their places in memory. DataWriter reads it,
// DataReader fills it; the checkpoint itself contains only whole tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// Elements that are adjacent both in memory and in the whole tensor.
struct StateRun {
  int64_t memory_begin = 0;  ///< index in StatePart::memory
  int64_t whole_begin = 0;   ///< index in the whole tensor, flattened row-major
  int64_t numel = 0;         ///< elements in the run
};

/// A rank's part of a tensor.
struct StatePart {
  std::string name;             ///< unique in the checkpoint: "model/h.0.attn.c_attn.weight"
  std::vector<int64_t> shape;   ///< of the whole tensor
  std::vector<StateRun> runs;   ///< disjoint in the whole tensor
  at::Tensor memory;            ///< [n], contiguous, on any device, with the tensor's type
  int64_t numel() const;        ///< elements of the part
  int64_t whole_numel() const;  ///< elements of the whole
};

/// Returns the part with its memory narrowed to what its runs span.
StatePart narrow_to_runs(const StatePart& part);
/// Returns the part that covers a whole contiguous tensor.
StatePart whole_part(const std::string& name, const at::Tensor& tensor);

/// Returns the runs clipped to elements [begin, end) of a part's memory.
std::vector<StateRun> clip_runs(const std::vector<StateRun>& runs, int64_t begin, int64_t end);

}  // namespace weft
