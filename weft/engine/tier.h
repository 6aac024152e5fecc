// Tier: a slower place that tensors are moved to and brought back from: host memory, or a file on disk.
//
// Room for state that is moved every step is taken at the start, so that a full disk is an error before anything is trained.
// The file has no name: nothing is left of it, however the process ends.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

namespace weft {

class Tier {
 public:
  virtual ~Tier() = default;
  /// A place for `bytes`, zero-filled; throws InputError when there is no room.
  virtual int reserve(int64_t bytes) = 0;
  /// `tensor` must be contiguous and have the bytes that the place was made for, or fewer.
  virtual void put(int place, const at::Tensor& tensor) = 0;
  virtual void get(int place, const at::Tensor& tensor) = 0;
};

/// Pinned where the tensors are on a GPU.
std::unique_ptr<Tier> host_tier(at::Device device);
/// A file in `folder`.
std::unique_ptr<Tier> disk_tier(const std::string& folder);

}  // namespace weft
