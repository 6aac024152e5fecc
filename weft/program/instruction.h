// Instruction: one entry of a rank's step. Plain data; no tensors.
//
// Everything is relative (micro-batches counted from the rank's first, blocks by index), so that ranks that do the same share
// one list: a 4 096-rank data-parallel program holds a single list.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace weft {

enum class Op : uint8_t {
  load,         ///< take micro-batch `micro` from the loader
  forward,      ///< run block `first` on micro-batch `micro`
  loss,         ///< loss of `micro` as (sum, count), and the gradient of its sum
  backward,     ///< run the backward of block `first` on `micro`; adds to the block's gradients
  combine,      ///< close slot `slot`: merge finished gradients of [first, last) by the binary tree over slots
  reduce,       ///< sum the gradients of [first, last) over the axis, leaving all of it on every rank
  reduce_loss,  ///< sum (loss, count) of every micro-batch over the axis
  norm,         ///< global gradient norm, for clipping
  update,       ///< optimizer on what this rank owns of [first, last)
};

enum class Lane : uint8_t { compute, comm, copy };

struct Instruction {
  Op op = Op::load;
  Lane lane = Lane::compute;
  int first = 0;  ///< blocks [first, last)
  int last = 0;
  int micro = -1;          ///< micro-batch, from the rank's first
  int slot = -1;           ///< for combine: slot, from the rank's first
  std::vector<int> waits;  ///< earlier instructions of this list that must have finished
  double flops = 0.0;
  int64_t wire_bytes = 0;  ///< payload this rank sends (comm/group.h states the convention)
  int64_t allocates = 0;   ///< bytes live after it that were not before
  int64_t frees = 0;       ///< bytes no longer live after it
};

std::string_view name(Op op);
std::string_view name(Lane lane);

}  // namespace weft
