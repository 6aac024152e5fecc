// A rank's batch: to_device() converts a loader's micro-batch for the engine, on the compute device; SampleCheck verifies that
// ranks sharing samples got the same ones: ranks of a pipeline, of a split layer, of a sequence.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "weft/comm/group.h"
#include "weft/data/dataset.h"
#include "weft/engine/micro_batch.h"
#include "weft/program/axis_set.h"

namespace weft {

/// Returns the tensors themselves if they are already there; an undefined target stays undefined. Others are
/// copied without a wait, from pinned memory (LoaderOptions::pinned) or through it: beside the device's work with `uploads`,
/// else in its order.
MicroBatch to_device(Batch batch, at::Device device, const std::shared_ptr<Uploads>& uploads = nullptr);

/// Hash of the tensors' bytes; types and shapes are not included.
uint64_t hash_of(const std::vector<at::Tensor>& tensors);

/// Compares a batch by two hashes, of its inputs and of its target.
class SampleCheck {
 public:
  bool has_batch() const { return recorded_.has_value(); }
  void record(const Batch& batch);  ///< sets the batch to compare

  /// Compares over the group along these axes; does nothing in a group of one. Ranks without a batch, in the middle of a
  /// pipeline, take part. Throws InputError on every rank if one has other samples, and CommError. `device` is the group's.
  void compare(const Group& group, AxisSet axes, at::Device device) const;

 private:
  struct Hashes {
    uint64_t inputs, target;
  };
  std::optional<Hashes> recorded_;
};

}  // namespace weft
