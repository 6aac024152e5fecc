// OffloadStore: a slower room that tensors are moved to and brought back from: host memory, or a file on disk.
//
// Room for state that is moved every step is taken at the start, so that a full disk is an error before anything is trained.
// Room that was given back is used again. The file has no name: nothing is left of it, however the process ends.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>

namespace weft {

class OffloadStore {
 public:
  virtual ~OffloadStore() = default;
  /// A room for `bytes`, zero-filled unless something was released before; throws InputError when there is no room.
  virtual int reserve(int64_t bytes) = 0;
  virtual void release(int room) = 0;
  /// `tensor` must be contiguous and have the bytes that the room was made for, or fewer.
  virtual void put(int room, const at::Tensor& tensor) = 0;
  virtual void get(int room, const at::Tensor& tensor) = 0;
};

/// A room that is released with the object. The tier must outlive it.
class OffloadRoom {
 public:
  OffloadRoom(OffloadStore& tier, int64_t bytes) : store_(&tier), number_(tier.reserve(bytes)) {}
  OffloadRoom(OffloadRoom&& other) noexcept : store_(std::exchange(other.store_, nullptr)), number_(other.number_) {}
  OffloadRoom& operator=(OffloadRoom&& other) noexcept {
    std::swap(store_, other.store_);
    std::swap(number_, other.number_);
    return *this;
  }
  ~OffloadRoom() {
    if (store_) store_->release(number_);
  }
  int number() const { return number_; }

 private:
  OffloadStore* store_;
  int number_;
};

/// Pinned where the tensors are on a GPU.
std::unique_ptr<OffloadStore> host_offload(at::Device device);
/// A file in `folder`.
std::unique_ptr<OffloadStore> disk_offload(const std::string& folder);

}  // namespace weft
