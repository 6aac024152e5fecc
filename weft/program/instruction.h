// Instruction: one entry of a rank's step. Plain data; no tensors.
//
// Everything is relative (micro-batches counted from the rank's first, blocks by index), so that ranks that do the same share
// one list: a 4 096-rank data-parallel program holds a single list.
//
// Order of execution: instructions start in list order, each after all that it waits for have finished. One on the compute
// lane has finished before the next one on it starts. Those on the other lanes run beside it where the hardware allows, and
// may finish in any order: whoever needs their result names them in `waits`.
#pragma once

#include <cstdint>
#include <string>
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
  norm,         ///< norm of the mean gradient of [first, last), for clipping
  update,       ///< optimizer on what this rank owns of [first, last)
};

enum class Lane : uint8_t { compute, comm, copy };

struct Instruction {
  Op op = Op::load;
  Lane lane = Lane::compute;
  int first = 0;  ///< blocks [first, last); forward and backward take one block, load and loss none
  int last = 0;
  int micro = -1;               ///< micro-batch, from the rank's first
  int slot = -1;                ///< for combine: slot, from the rank's first
  std::vector<int> waits = {};  ///< earlier instructions of this list that must have finished, ascending
  double flops = 0.0;           ///< forward and backward only: an optimizer's few operations a parameter are not counted
  int64_t wire_bytes = 0;       ///< payload this rank sends (comm/group.h states the convention)
  int64_t allocates = 0;        ///< bytes live after it that were not before
  int64_t frees = 0;            ///< bytes no longer live after it
};

std::string_view name(Op op);
std::string_view name(Lane lane);

/// True when all ranks of an axis must meet in it.
bool is_collective(Op op);

/// What it does, in words, for errors and listings: "backward of block 3 'h.2' on micro-batch 0".
std::string describe(const Instruction& instruction, const std::vector<std::string>& block_names);

}  // namespace weft
