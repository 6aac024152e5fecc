// FlatOptions: how FlatModel lays a model out in memory: this rank's share, the types, and the allocator of the buffers
// (FlatAllocator).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weft {

class FlatAllocator;

/// A rank's share of a model's flat memory, and its layout.
struct FlatOptions {
  at::Device device = at::kCPU;                ///< device of the parameters
  int num_shards = 1;                          ///< ranks that each block is divided over
  int shard = 0;                               ///< index of this rank's shard
  int num_inner_shards = 1;                    ///< ranks that keep whole weights divided from forward to backward
  int inner = 0;                               ///< this rank among them
  at::ScalarType weight_dtype = at::kFloat;    ///< type that forward reads
  at::ScalarType gradient_dtype = at::kFloat;  ///< type that gradients are reduced in
  bool separate_shard = false;                 ///< the shard has its own memory (ZeRO-3)
  bool late_shard = false;                     ///< separate_shard, but allocated block by block during initialisation
  bool separate_gradients = false;             ///< the shard's gradients have their own memory (ZeRO-2, 3)
  std::vector<bool> held = {};                 ///< by block: whether this rank has it; empty: all. Others take no memory
  std::vector<bool> tied_copy = {};            ///< by block: a copy for tied weights, not the first holder; not in the norm
  std::vector<int> gradient_sums = {};         ///< by block: number of adjacent gradient sums; empty: one
  /// By block: blocks that run here and read its weights, each with its own gradient sum. Empty: one sum for all.
  std::vector<std::vector<int>> users = {};
  bool is_copy = false;                           ///< whole weights and gradients are here, but another rank owns all of them
  bool counts_unsplit = true;                     ///< the norm counts unsplit parameters here: true on the first rank of tp
  std::vector<int> weight_buffer = {};            ///< index by block; empty: each block has its own
  std::vector<int> gradient_buffer = {};          ///< index by block; empty: all in one buffer, block after block
  std::shared_ptr<FlatAllocator> allocator = {};  ///< for all buffers; empty: plain device memory
  bool shares_given = false;                      ///< given values are taken by share_given(), not immediately
};

/// Purpose of a buffer.
enum class FlatBuffer : uint8_t {
  weights,          ///< whole weights
  gradients,        ///< whole gradients
  shard,            ///< the shards of all blocks, in addition to whole weights
  inner,            ///< the inner parts of all blocks
  master,           ///< float32 weights of a block, in addition to narrower ones
  owned_gradients,  ///< gradients of a block's shard, in addition to whole gradients
};

/// Makes flat buffers. Those that collectives use in place may be registered memory of a group (Group::allocate).
class FlatAllocator {
 public:
  FlatAllocator() = default;
  virtual ~FlatAllocator() = default;
  FlatAllocator(const FlatAllocator&) = delete;
  FlatAllocator& operator=(const FlatAllocator&) = delete;

  /// A buffer of zeros, [numel]. `what` identifies it across ranks, which must all request the same: "weights of block 3".
  virtual at::Tensor allocate(FlatBuffer buffer, int64_t numel, at::ScalarType dtype, const std::string& what) = 0;
};

/// Makes flat buffers in the rank's own memory.
class PlainAllocator : public FlatAllocator {
 public:
  /// Allocates buffers on `device`.
  explicit PlainAllocator(at::Device device) : device_(device) {}
  at::Tensor allocate(FlatBuffer buffer, int64_t numel, at::ScalarType dtype, const std::string& what) override;

 private:
  at::Device device_;
};

}  // namespace weft
