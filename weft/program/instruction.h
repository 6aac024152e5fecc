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

#include "weft/base/enum_names.h"
#include "weft/program/axis_set.h"

namespace weft {

/// What an instruction does. `first`, `micro` and the other names are members of Instruction.
enum class Op : uint8_t {
  load,             ///< take micro-batch `micro` from the loader
  gather,           ///< make the whole weights of block `first` from the shards
  release,          ///< the whole weights of block `first` are no longer needed; with an `inner` one to come, its part is kept
  forward,          ///< run block `first` on micro-batch `micro`; a second time after a drop: recompute
  drop,             ///< forget what block `first` keeps for its backward on `micro`, but for its input
  offload,          ///< move `what` of block `first` (of `micro`, for an input) out to slower memory
  reload,           ///< bring it back
  loss,             ///< loss of `micro` as (sum, count), and the gradient of its sum
  backward,         ///< run the backward of block `first` on `micro`; adds to the block's gradients
  backward_input,   ///< the part of it that makes the gradient of the block's input
  backward_weight,  ///< the rest: adds to the block's gradients
  send,             ///< hand `what` (an activation is the output of block `first` on `micro`) to pipeline rank `peer`
  receive,          ///< take it from `peer`; a sum is added to what the block's gradients hold
  combine,          ///< close slot `slot`: merge finished gradients of [first, last) by the binary tree over slots
  reduce_scatter,   ///< sum the gradients of block `first` over the shard axis, leaving each rank its shard; adds up over calls
  reduce,           ///< sum what this rank owns of the gradients of [first, last) over `axis`, leaving it on every rank of it
  squares,          ///< squares of the gradients of block `first` as `micro`, the first of its slot, left them: the noise scale
  reduce_loss,      ///< sum (loss, count) of every micro-batch over the axis, and the squares
  norm,             ///< norms of [first, last): of the mean gradient, for clipping and fp16's check, and of whole tensors
  gather_gradients,  ///< make whole, from the shards, what the update of block `first` needs of its gradients
  update,            ///< optimizer on what this rank owns of [first, last)
};
/// The words for instructions.
inline constexpr EnumNames<Op, 21> kOps("load", "gather", "release", "forward", "drop", "offload", "reload", "loss", "backward",
                                        "backward_input", "backward_weight", "send", "receive", "combine", "reduce_scatter",
                                        "reduce", "squares", "reduce_loss", "norm", "gather_gradients", "update");

/// The data that offload, reload, send and receive move.
enum class Payload : uint8_t {
  none,
  activation,  ///< send and receive: a block's output
  gradient,    ///< the same: the gradient of one
  weights,     ///< offload and reload: the rank's shard of them; send and receive: all of them
  optimizer,   ///< the same: optimizer state
  input,       ///< the same: a block's input
  batch,       ///< send and receive: a micro-batch as it was loaded, without its targets
  sum,         ///< the same: gradients of a block, summed over micro-batches
};
/// The words for what is moved.
inline constexpr EnumNames<Payload, 8> kPayloads("none", "activation", "gradient", "weights", "optimizer state", "input",
                                                 "batch", "sum");

/// What an instruction keeps busy: the device's arithmetic, its links to other ranks, or that to slower memory.
enum class Lane : uint8_t { compute, comm, copy };
/// The words for lanes.
inline constexpr EnumNames<Lane, 3> kLanes("compute", "comm", "copy");

/// One entry of a list.
struct Instruction {
  Op op = Op::load;                ///< what it does
  Lane lane = Lane::compute;       ///< where it runs
  int first = 0;                   ///< blocks [first, last); forward and backward take one block, load and loss none
  int last = 0;                    ///< the block after the last
  int micro = -1;                  ///< micro-batch, from the rank's first
  int slot = -1;                   ///< for combine: slot, from the rank's first
  AxisSet axes = kNoAxes;          ///< collectives: which ranks meet
  Payload what = Payload::none;    ///< offload, reload, send, receive: what is moved
  int peer = -1;                   ///< send and receive: the other rank's place on the pipeline axis
  bool keeps_inner_shard = false;  ///< release: this rank's part of the inner axis stays, for a gather over it
  std::vector<int> waits = {};     ///< earlier instructions of this list that must have finished, ascending
  double flops = 0.0;              ///< forward and backward only: an optimizer's few operations a parameter are not counted
  int64_t wire_bytes = 0;          ///< payload this rank sends (comm/group.h states the convention)
  int64_t peak = 0;                ///< bytes above those live before it at its worst moment; 0 where that is `allocates`
  int64_t allocates = 0;           ///< bytes live after it that were not before
  int64_t frees = 0;               ///< bytes no longer live after it
};

/// The word for an instruction: "reduce_scatter".
inline std::string_view name(Op op) { return kOps.of(op); }
/// The word for a lane: "comm".
inline std::string_view name(Lane lane) { return kLanes.of(lane); }
/// The word for what is moved: "optimizer state".
inline std::string_view name(Payload payload) { return kPayloads.of(payload); }

/// True for a collective, in which all ranks of its axes must meet.
inline bool is_collective(const Instruction& x) { return !x.axes.empty(); }
/// The block whose holders meet, for a reduce over the pipeline axis alone: pipeline ranks that hold one block sum its
/// gradients (tied weights). -1 for everything else.
inline int tied_block(const Instruction& x) { return x.op == Op::reduce && x.axes == kPipelineAxis ? x.first : -1; }
/// True for send and receive, in which two ranks meet.
constexpr bool is_transfer(Op op) { return op == Op::send || op == Op::receive; }
/// True for backward and its two parts.
constexpr bool is_backward(Op op) { return op == Op::backward || op == Op::backward_input || op == Op::backward_weight; }
/// True for the instructions that add to gradients: backward, and backward_weight where it is split.
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

/// The instruction in words, for errors and listings: "backward of block 3 'h.2' on micro-batch 0".
std::string describe(const Instruction& instruction, const std::vector<std::string>& block_names);

}  // namespace weft
