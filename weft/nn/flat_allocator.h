// FlatAllocator: who makes the flat buffers of a model.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace weft {

/// What a buffer is for.
enum class FlatBuffer : uint8_t {
  weights,          ///< whole weights
  gradients,        ///< whole gradients
  shard,            ///< the shards of all blocks, beside whole weights
  inner,            ///< the inner parts of all blocks
  master,           ///< float32 weights of a block, beside narrower ones
  owned_gradients,  ///< of a block's shard, beside whole gradients
};

/// Makes flat buffers. One that collectives use in place may be registered memory of a group (Group::allocate).
class FlatAllocator {
 public:
  FlatAllocator() = default;
  virtual ~FlatAllocator() = default;
  FlatAllocator(const FlatAllocator&) = delete;
  FlatAllocator& operator=(const FlatAllocator&) = delete;

  /// A buffer of zeros, [numel]. `what` names it where ranks must ask for the same: "weights of block 3".
  virtual at::Tensor allocate(FlatBuffer buffer, int64_t numel, at::ScalarType dtype, const std::string& what) = 0;
};

/// Makes flat buffers in memory of the rank's own.
class PlainAllocator : public FlatAllocator {
 public:
  /// Buffers lie on `device`.
  explicit PlainAllocator(at::Device device) : device_(device) {}
  at::Tensor allocate(FlatBuffer buffer, int64_t numel, at::ScalarType dtype, const std::string& what) override;

 private:
  at::Device device_;
};

}  // namespace weft
