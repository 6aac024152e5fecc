// StatePart: what a rank has of a tensor of a run's state: which of its elements, and where they lie in memory. What writes a
// checkpoint reads it, what loads one fills it; a checkpoint itself knows whole tensors alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// Elements side by side, in memory and in the whole tensor.
struct StateRun {
  int64_t memory_begin = 0;  ///< in StatePart::memory
  int64_t whole_begin = 0;   ///< in the whole, flattened row-major
  int64_t numel = 0;         ///< how many
};

/// A rank's part of a tensor.
struct StatePart {
  std::string name;             ///< unique in the checkpoint: "model/h.0.attn.c_attn.weight"
  std::vector<int64_t> shape;   ///< of the whole
  std::vector<StateRun> runs;   ///< no element of the whole is in two
  at::Tensor memory;            ///< [n], contiguous, of any device: its type is the tensor's
  int64_t numel() const;        ///< elements of the part
  int64_t whole_numel() const;  ///< elements of the whole
};

/// The part with no more of its memory than its runs span.
StatePart narrowed(const StatePart& part);
/// The part that is all of a contiguous tensor.
StatePart whole_part(const std::string& name, const at::Tensor& tensor);

/// The runs that lie in elements [begin, end) of a part's memory.
std::vector<StateRun> clip_runs(const std::vector<StateRun>& runs, int64_t begin, int64_t end);

}  // namespace weft
