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

/// Numbered rooms for tensors in slower memory.
class OffloadStore {
 public:
  virtual ~OffloadStore() = default;
  /// Takes a room for `bytes`, zero-filled unless something was released before, and returns its number. Throws InputError when
  /// there is no room.
  virtual int reserve(int64_t bytes) = 0;
  /// Gives the room back, for others to reserve.
  virtual void release(int room) = 0;
  /// Copies `tensor` into the room. It must be contiguous and have the bytes that the room was made for, or fewer.
  virtual void put(int room, const at::Tensor& tensor) = 0;
  /// Copies what put() left in the room back into `tensor`, which is like the one that was put there.
  virtual void get(int room, const at::Tensor& tensor) = 0;
};

/// A room that is released with the object. The store must outlive it.
class OffloadRoom {
 public:
  /// Reserves a room; throws as OffloadStore::reserve() does.
  OffloadRoom(OffloadStore& store, int64_t bytes) : store_(&store), number_(store.reserve(bytes)) {}
  /// Leaves `other` without a room.
  OffloadRoom(OffloadRoom&& other) noexcept : store_(std::exchange(other.store_, nullptr)), number_(other.number_) {}
  /// Swaps the two rooms.
  OffloadRoom& operator=(OffloadRoom&& other) noexcept {
    std::swap(store_, other.store_);
    std::swap(number_, other.number_);
    return *this;
  }
  ~OffloadRoom() {
    if (store_) store_->release(number_);
  }
  /// The room's number in its store.
  int number() const { return number_; }

 private:
  OffloadStore* store_;
  int number_;
};

/// Rooms in host memory, pinned where `device`, that of the tensors, is a GPU.
std::unique_ptr<OffloadStore> host_offload(at::Device device);
/// Rooms in a file in `folder`. Throws InputError, naming the folder, when none can be made there.
std::unique_ptr<OffloadStore> disk_offload(const std::string& folder);

}  // namespace weft
