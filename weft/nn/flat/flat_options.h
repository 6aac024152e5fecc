// FlatOptions: how FlatModel lays a model into memory: what this rank owns, in which types, and who makes the buffers
// (FlatAllocator).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weft {

class FlatAllocator;

/// What a rank has of a model's flat memory, and how.
struct FlatOptions {
  at::Device device = at::kCPU;                ///< of parameters
  int num_shards = 1;                          ///< ranks that each block is divided over
  int shard = 0;                               ///< this rank's
  int num_inner_shards = 1;                    ///< ranks that keep whole weights divided from forward to backward
  int inner = 0;                               ///< this rank among them
  at::ScalarType weight_dtype = at::kFloat;    ///< of what forward reads
  at::ScalarType gradient_dtype = at::kFloat;  ///< of what is reduced
  bool separate_shard = false;                 ///< the shard has memory of its own (ZeRO-3)
  bool late_shard = false;                     ///< separate_shard that is made block by block, while it is initialised
  bool separate_gradients = false;             ///< so have its gradients (ZeRO-2, 3)
  std::vector<bool> held = {};                 ///< by block: this rank has it; empty: all. Others take no memory
  std::vector<bool> tied_copy = {};            ///< by block: held beside its first holder (tied weights); not in the norm here
  std::vector<int> gradient_sums = {};         ///< by block: sums of its gradients side by side; empty: one
  /// By block: those that run here and read its weights, each of which has a sum of its own. Empty: one for all.
  std::vector<std::vector<int>> users = {};
  bool is_copy = false;                 ///< whole weights and gradients are here, but another rank owns all of them
  bool counts_unsplit = true;           ///< parameters that are not split are in the norm here: of the ranks of tp, the first's
  std::vector<int> weight_buffer = {};  ///< by block; empty: each has its own
  std::vector<int> gradient_buffer = {};          ///< by block; empty: all lie in one buffer, block after block
  std::shared_ptr<FlatAllocator> allocator = {};  ///< of all buffers; empty: plain memory of the device
  bool shares_given = false;                      ///< values that were given are taken by share_given(), not at once
};

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
