// OffloadStore: slower memory that tensors are moved to and back from: host memory or a file on disk.
//
// Space for state that moves every step is reserved at the start, so a full disk is an error before training begins. Released
// space is reused. The file is unlinked: nothing remains however the process ends.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>

namespace weft {

/// Numbered buffers for tensors in slower memory.
class OffloadStore {
 public:
  virtual ~OffloadStore() = default;
  /// Reserves a buffer of `bytes` and returns its number. It is zero-filled unless released space is reused. Throws InputError
  /// if there is no space.
  virtual int reserve(int64_t bytes) = 0;
  /// Releases a buffer for reuse.
  virtual void release(int room) = 0;
  /// Copies `tensor` into the buffer. It must be contiguous and no larger than the buffer.
  virtual void put(int room, const at::Tensor& tensor) = 0;
  /// Copies the buffer's content into `tensor`, which must have the type and sizes of the one that put() stored.
  virtual void get(int room, const at::Tensor& tensor) = 0;
};

/// A buffer released on destruction. The store must outlive it.
class OffloadBuffer {
 public:
  /// Reserves a buffer; throws as OffloadStore::reserve() does.
  OffloadBuffer(OffloadStore& store, int64_t bytes) : store_(&store), number_(store.reserve(bytes)) {}
  /// Leaves `other` empty.
  OffloadBuffer(OffloadBuffer&& other) noexcept : store_(std::exchange(other.store_, nullptr)), number_(other.number_) {}
  /// Swaps the two buffers.
  OffloadBuffer& operator=(OffloadBuffer&& other) noexcept {
    std::swap(store_, other.store_);
    std::swap(number_, other.number_);
    return *this;
  }
  ~OffloadBuffer() {
    if (store_) store_->release(number_);
  }
  /// The buffer's number in its store.
  int number() const { return number_; }

 private:
  OffloadStore* store_;
  int number_;
};

/// Buffers in host memory, pinned if `device`, where the tensors are, is a GPU.
std::unique_ptr<OffloadStore> host_offload(at::Device device);
/// Buffers in a file in `folder`. Throws InputError naming the folder if the file cannot be created there.
std::unique_ptr<OffloadStore> disk_offload(const std::string& folder);

}  // namespace weft
