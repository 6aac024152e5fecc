// OffloadStore: slower memory that tensors are moved to and back from: host memory or a file on disk.
//
// Between a device and host memory, copies run on streams of their own, beside the work of the current stream: what leaves is
// freed when a stream has waited for its copy, and what arrives is waited for where it is first used. Copies to and from a file
// end before the call returns, and so do those of tensors on the CPU.
//
// Space for state that moves every step is reserved at the start, so a full disk is an error before training begins. Released
// space is reused. The file is unlinked: nothing remains however the process ends.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "weft/comm/call/work.h"

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
  /// Copies `tensor` into the buffer, after the work on the current stream. It must be contiguous and no larger than the
  /// buffer, and goes to retire() next.
  virtual void put(int room, const at::Tensor& tensor) = 0;
  /// Copies the buffer's content into `tensor`, which must have the type and sizes of the one that put() stored, and must not
  /// be used before arrived() is waited for.
  virtual void get(int room, const at::Tensor& tensor) = 0;

  /// Stream of get(). A tensor made while it is current takes memory that recycle() has freed, without a wait of the device's
  /// work. None: copies end before get() returns.
  virtual std::optional<c10::Stream> arrivals() const { return std::nullopt; }
  /// All that arrivals() has been given so far, for the current stream to wait for.
  virtual Work arrived() { return {}; }
  /// Takes a tensor that the current stream's later work does not use, and frees it once settle() or recycle() is called.
  virtual void retire(const at::Tensor& /*tensor*/) {}
  /// Frees what has been retired: the current stream, on which it was made, waits for its copies.
  virtual void settle() {}
  /// Frees what has been retired: arrivals(), on which it was made, waits for its copies and for the work before retire().
  virtual void recycle() {}
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

/// Buffers in a file in `folder`. Throws InputError naming the folder if the file cannot be created there.
std::unique_ptr<OffloadStore> disk_offload(const std::string& folder);

}  // namespace weft
