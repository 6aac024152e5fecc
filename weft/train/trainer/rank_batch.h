// A rank's batch: to_device(), a loader's micro-batch as the engine takes it, on the device that computes; and SampleCheck,
// that ranks which share samples were given the same: those of a pipeline, of a split layer, of a sequence.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "weft/comm/group.h"
#include "weft/data/dataset.h"
#include "weft/engine/micro_batch.h"
#include "weft/program/axis_set.h"

namespace weft {

/// The tensors themselves where they are there already; a target that is undefined stays so. Pinned ones
/// (LoaderOptions::pinned) are copied while the rank goes on; the device's stream waits for them.
MicroBatch to_device(Batch batch, at::Device device);

/// Of the tensors' bytes; types and shapes are not in it.
uint64_t hash_of(const std::vector<at::Tensor>& tensors);

/// Compares a batch by hashes, one of its inputs and one of its target.
class SampleCheck {
 public:
  bool has_seen() const { return seen_.has_value(); }  ///< a batch
  void see(const Batch& batch);                        ///< the one that is compared

  /// Compares over the group along these axes; in a group of one nothing is done. Ranks that saw none, in the middle of a
  /// pipeline, take part. Throws InputError on every rank where one has other samples, and CommError. `device` is the group's.
  void compare(const Group& group, AxisSet axes, at::Device device) const;

 private:
  struct Hashes {
    uint64_t inputs, target;
  };
  std::optional<Hashes> seen_;
};

}  // namespace weft
