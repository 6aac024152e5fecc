// FlatOptions: how FlatModel lays a model into memory: what this rank owns, in which types, and who makes the buffers.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace weft {

/// Makes a flat, zero-filled buffer: plain memory, or Group::allocate for buffers that collectives use in place.
using Allocate = std::function<at::Tensor(int64_t numel, at::ScalarType dtype, const std::string& what)>;

struct FlatOptions {
  at::Device device = at::kCPU;
  int num_shards = 1;
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
  std::vector<int> weight_buffer = {};         ///< by block; empty: each has its own
  std::vector<int> gradient_buffer = {};       ///< by block; empty: all lie in one buffer, block after block
  Allocate allocate_weights = {};              ///< whole weights; empty: plain memory
  Allocate allocate_gradients = {};            ///< whole gradients
  Allocate allocate_shard = {};                ///< the shards of all blocks, for separate_shard
  Allocate allocate_inner = {};                ///< the inner parts of all blocks
  Allocate allocate_master = {};               ///< of a block, beside narrower weights
  Allocate allocate_owned = {};                ///< gradients of a block's shard, for separate_gradients
  /// Replaces a block's values, [numel] float32, that were given, not drawn, by those that count (rank 0's). Called on every
  /// rank for the same blocks in the same order, held or not: rank 0 may hold others than those it gives.
  std::function<void(const at::Tensor& values, bool held, const std::string& what)> share_given = {};
};

}  // namespace weft
