// Registered buffers: tensors in memory that every rank of the group has mapped, so collectives on them, or on any part, need
// no staging.
//
// Each rank's part is separate memory. A rank frees its part with its last tensor on it. The peers' views are unmapped at the
// first allocate() after all ranks' tensors are gone, because a destructor must not communicate.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <vector>

#include "weft/comm/host/shared_memory.h"
#include "weft/comm/shm/barrier.h"
#include "weft/comm/shm/control.h"

namespace weft::shm {

class Buffers {
 public:
  /// `control` keeps the group's memory mapped for as long as tensors may live.
  Buffers(Members& members, Barrier& barrier, std::shared_ptr<Mapping> control);

  /// Creates a buffer and returns this rank's part. Collective.
  at::Tensor allocate(const Call& call);

  struct Location {
    int32_t buffer = -1;
    int64_t offset = 0;  ///< bytes
  };
  /// Returns the location of `bytes` at `data` in this rank's part of a buffer; buffer -1 if they are outside.
  Location find(const void* data, size_t bytes) const;
  std::byte* at(int32_t buffer, int rank, int64_t offset) const { return buffers_[buffer].views[rank]->data() + offset; }

 private:
  struct Buffer {
    std::vector<std::shared_ptr<Mapping>> views;  ///< one per rank; empty: not mapped
  };

  void sweep();
  void unmap(size_t number);
  int32_t unused_number() const;
  void map_parts(int32_t number, FileDescriptor own, size_t bytes);
  at::Tensor make_tensor(int32_t number, const Call& call);

  Members& members_;
  Barrier& barrier_;
  std::shared_ptr<Mapping> control_;
  std::vector<Buffer> buffers_;
  std::map<const std::byte*, int32_t> by_address_;  ///< addresses of this rank's parts
  std::vector<FileDescriptor> closing_;
};

}  // namespace weft::shm
