// HostStore: buffers in host memory, reused by size. Copies end before put() and get() return, unless the memory is pinned and
// the tensor on a device: then they are on its current stream.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "weft/engine/offload_store.h"
#include "weft/program/memory.h"

namespace weft {

/// Numbered buffers in host memory.
class HostStore : public OffloadStore {
 public:
  /// `of`: what its memory counts as (engine/memory_ledger.h).
  explicit HostStore(bool pinned = false, MemoryCategory of = MemoryCategory::activations) : pinned_(pinned), of_(of) {}
  int reserve(int64_t bytes) override;
  void release(int room) override { free_.emplace(rooms_[room].numel(), room); }
  void put(int room, const at::Tensor& tensor) override;
  void get(int room, const at::Tensor& tensor) override;

 private:
  at::Tensor make(int64_t bytes) const;
  at::Tensor view_of(int room, const at::Tensor& like) const;

  bool pinned_;
  MemoryCategory of_;
  std::vector<at::Tensor> rooms_;
  std::multimap<int64_t, int> free_;  ///< by bytes
};

/// Buffers in host memory, for tensors on the CPU; `of` as for HostStore.
std::unique_ptr<OffloadStore> host_offload(MemoryCategory of = MemoryCategory::activations);

}  // namespace weft
