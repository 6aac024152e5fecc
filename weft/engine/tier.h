// Tier: a slower place that tensors are moved to and brought back from: host memory, or a file on disk.
//
// Room for state that is moved every step is taken at the start, so that a full disk is an error before anything is trained.
// Room that was given back is used again. The file has no name: nothing is left of it, however the process ends.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>

namespace weft {

class Tier {
 public:
  virtual ~Tier() = default;
  /// A place for `bytes`, zero-filled unless something was released before; throws InputError when there is no room.
  virtual int reserve(int64_t bytes) = 0;
  virtual void release(int place) = 0;
  /// `tensor` must be contiguous and have the bytes that the place was made for, or fewer.
  virtual void put(int place, const at::Tensor& tensor) = 0;
  virtual void get(int place, const at::Tensor& tensor) = 0;
};

/// A place that is released with the object. The tier must outlive it.
class TierPlace {
 public:
  TierPlace(Tier& tier, int64_t bytes) : tier_(&tier), number_(tier.reserve(bytes)) {}
  TierPlace(TierPlace&& other) noexcept : tier_(std::exchange(other.tier_, nullptr)), number_(other.number_) {}
  TierPlace& operator=(TierPlace&& other) noexcept {
    std::swap(tier_, other.tier_);
    std::swap(number_, other.number_);
    return *this;
  }
  ~TierPlace() {
    if (tier_) tier_->release(number_);
  }
  int number() const { return number_; }

 private:
  Tier* tier_;
  int number_;
};

/// Pinned where the tensors are on a GPU.
std::unique_ptr<Tier> host_tier(at::Device device);
/// A file in `folder`.
std::unique_ptr<Tier> disk_tier(const std::string& folder);

}  // namespace weft
