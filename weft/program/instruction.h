// Instruction: one entry of a rank's step. Plain data; no tensors.
//
// Everything is relative (micro-batches are counted from the rank's first, blocks are given by index), so identical ranks share
// a list: a 4 096-rank data-parallel program holds a single list.
//
// Order of execution: instructions start in list order, each after all of its waits have finished. An instruction on the
// compute lane finishes before the next one on that lane starts. Instructions on other lanes overlap compute where the hardware
// allows, and may finish in any order: whatever needs their result names them in `waits`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/enum_names.h"
#include "weft/program/axis_set.h"

namespace weft {

/// Operation of an instruction. `first`, `micro` and the other names are members of Instruction.
enum class Op : uint8_t {
  load,              ///< take micro-batch `micro` from the loader
  gather,            ///< gather the whole weights of block `first` from the shards
  release,           ///< free the whole weights of block `first`; keeps the inner part if an inner gather follows
  forward,           ///< run block `first` on micro-batch `micro`; again after a drop: recompute
  drop,              ///< free the activations that block `first` keeps for its backward on `micro`, except its input
  offload,           ///< move `what` of block `first` (of `micro`, for an input) out to slower memory
  reload,            ///< move `what` back
  loss,              ///< loss of `micro` as (sum, count), and the gradient of the sum
  backward,          ///< run the backward of block `first` on `micro`; adds to the block's gradients
  backward_input,    ///< the part that computes the gradient of the block's input
  backward_weight,   ///< the rest of the backward: adds to the block's gradients
  send,              ///< hand `what` (an activation is the output of block `first` on `micro`) to pipeline rank `peer`
  receive,           ///< take `what` from `peer`; a sum is added to the block's gradients
  combine,           ///< close slot `slot`: merge gradients of [first, last) along the binary tree over slots
  reduce_scatter,    ///< sum the gradients of block `first` over the shard axis into shards; accumulates over calls
  reduce,            ///< all-reduce this rank's gradients of [first, last) over `axes`
  squares,           ///< squares of block `first`'s gradients after `micro`, the first of its slot, for the noise scale
  reduce_loss,       ///< sum (loss, count) of every micro-batch, and the squares, over `axes`
  norm,              ///< norms of [first, last): of the mean gradient (clipping, fp16's check) and of whole tensors
  gather_gradients,  ///< gather whole gradients that the update of block `first` needs
  update,            ///< run the optimizer on this rank's part of [first, last)
};
/// Names of operations.
inline constexpr EnumNames<Op, 21> kOps("load", "gather", "release", "forward", "drop", "offload", "reload", "loss", "backward",
                                        "backward_input", "backward_weight", "send", "receive", "combine", "reduce_scatter",
                                        "reduce", "squares", "reduce_loss", "norm", "gather_gradients", "update");

/// Data moved by offload, reload, send and receive.
enum class Payload : uint8_t {
  none,
  activation,  ///< send and receive: a block's output
  gradient,    ///< send and receive: gradient of a block's output
  weights,     ///< offload and reload: the rank's shard; send and receive: whole weights
  optimizer,   ///< offload and reload: optimizer state
  input,       ///< offload and reload: a block's input
  batch,       ///< send and receive: a loaded micro-batch, without its targets
  sum,         ///< send and receive: gradients of a block, summed over micro-batches
};
/// Names of payloads.
inline constexpr EnumNames<Payload, 8> kPayloads("none", "activation", "gradient", "weights", "optimizer state", "input",
                                                 "batch", "sum");

/// Resource that an instruction occupies: the device's arithmetic, its links to other ranks, or its link to slower memory.
enum class Lane : uint8_t { compute, comm, copy };
/// Names of lanes.
inline constexpr EnumNames<Lane, 3> kLanes("compute", "comm", "copy");

/// One entry of a list.
struct Instruction {
  Op op = Op::load;                ///< operation
  Lane lane = Lane::compute;       ///< resource that it occupies
  int first = 0;                   ///< blocks [first, last); forward and backward take one block, load and loss none
  int last = 0;                    ///< the block after the last
  int micro = -1;                  ///< micro-batch, counted from the rank's first
  int slot = -1;                   ///< combine: slot, counted from the rank's first
  AxisSet axes = kNoAxes;          ///< collectives: axes of the ranks that take part
  Payload what = Payload::none;    ///< offload, reload, send, receive: data moved
  int peer = -1;                   ///< send and receive: the other rank's place on the pipeline axis
  bool keeps_inner_shard = false;  ///< release: keeps this rank's part of the inner axis, for a gather over it
  std::vector<int> waits = {};     ///< earlier instructions of this list that must have finished, ascending
  double flops = 0.0;              ///< forward and backward only; the optimizer's few operations per parameter are ignored
  int64_t wire_bytes = 0;          ///< payload that this rank sends, counted as in comm/group.h
  int64_t copy_bytes = 0;          ///< offload and reload: bytes copied; 0: nothing is (passes/offload.h)
  int64_t peak = 0;                ///< peak bytes above those live before it; 0: `allocates` (peak_bytes())
  int64_t allocates = 0;           ///< bytes newly live after it
  int64_t frees = 0;               ///< bytes no longer live after it
};

/// Name of an operation, such as "reduce_scatter".
inline std::string_view name(Op op) { return kOps.of(op); }
/// Name of a lane, such as "comm".
inline std::string_view name(Lane lane) { return kLanes.of(lane); }
/// Name of a payload, such as "optimizer state".
inline std::string_view name(Payload payload) { return kPayloads.of(payload); }

/// True for a collective, in which all ranks of its axes take part.
inline bool is_collective(const Instruction& x) { return !x.axes.empty(); }
/// Most bytes above those live before it. Without `peak`, it allocates everything before it frees anything; with it, what is
/// allocated may have been a part of what is freed, such as what the first part of a backward leaves for the second.
inline int64_t peak_bytes(const Instruction& x) { return x.peak > 0 ? std::max(x.peak, x.allocates - x.frees) : x.allocates; }
/// Block of a reduce over the pipeline axis alone, in which the pipeline ranks that hold the block sum its gradients (tied
/// weights). -1 for everything else.
inline int tied_block(const Instruction& x) { return x.op == Op::reduce && x.axes == kPipelineAxis ? x.first : -1; }
/// True for the reduce over tp alone, which sums only the gradients that are partial (Program::partial_gradients).
inline bool sums_partial(const Instruction& x) { return x.op == Op::reduce && x.axes == kTensorAxis; }
/// True for send and receive.
constexpr bool is_transfer(Op op) { return op == Op::send || op == Op::receive; }
/// True for backward and its two parts.
constexpr bool is_backward(Op op) { return op == Op::backward || op == Op::backward_input || op == Op::backward_weight; }
/// True for instructions that add to gradients: backward, or backward_weight if split.
constexpr bool adds_gradients(Op op) { return op == Op::backward || op == Op::backward_weight; }
/// True for instructions on exactly one block.
constexpr bool takes_one_block(Op op) {
  return op == Op::forward || is_backward(op) || is_transfer(op) || op == Op::gather || op == Op::release || op == Op::drop ||
         op == Op::offload || op == Op::reload || op == Op::reduce_scatter || op == Op::squares || op == Op::gather_gradients;
}
/// True for instructions on a micro-batch.
inline bool takes_micro_batch(const Instruction& x) {
  const bool moves_state = x.what == Payload::weights || x.what == Payload::sum;
  return x.op == Op::load || x.op == Op::loss || x.op == Op::forward || is_backward(x.op) ||
         (is_transfer(x.op) && !moves_state) || x.op == Op::drop || x.op == Op::reduce_scatter || x.op == Op::squares ||
         x.what == Payload::input;
}

/// Text of an instruction, for errors and listings: "backward of block 3 'h.2' on micro-batch 0".
std::string describe(const Instruction& instruction, const std::vector<std::string>& block_names);

}  // namespace weft
