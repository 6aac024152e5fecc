#include "weft/program/verify/presence_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "weft/program/axes.h"
#include "weft/program/copies.h"
#include "weft/program/defect.h"

namespace weft {
namespace {

class PresenceCheck {
 public:
  PresenceCheck(const Program& program, int rank, const StepIndex& at)
      : program_(program),
        list_(program.of(rank)),
        rank_(rank),
        at_(at),
        micros_(micros_run(program, program.pp_of(rank))),
        owns_(owns_blocks(program, program.pp_of(rank))) {}

  void run() const {
    if (!program_.holders.empty()) check_held();
    check_missing();
    for (int i = 0; i < static_cast<int>(list_.size()); ++i) {
      check_work(i);
      check_place(i);
      check_axis(i);
    }
  }

 private:
  [[noreturn]] void fail(Defect defect, int i, const std::string& text) const { fail_at(program_, rank_, i, defect, text); }
  [[noreturn]] void fail_missing(Defect defect, int block, const std::string& text) const {
    throw VerifyError(defect, rank_,
                      fmt::format("rank {}, block {} '{}': {}", rank_, block, program_.block_names[block], text));
  }

  void check_held() const;
  void check_missing() const;
  void check_run(int block) const;
  void check_sent(int block) const;
  void check_updated(int block) const;
  void check_summed(int block) const;
  void check_sent_by(int block, int micro) const;
  void check_work(int i) const;
  void check_slots(int block) const;
  void check_place(int i) const;
  void check_axis(int i) const;
  AxisSet axes_of(const Instruction& x) const;

  bool sharded() const { return program_.shard_level != ShardLevel::none; }

  const Program& program_;
  const InstructionList& list_;
  int rank_;
  const StepIndex& at_;
  MicroRange micros_;  // micro-batches of the rank
  bool owns_;          // the rank updates its blocks
};

// A missing tie is found from the holders of shared blocks.
void PresenceCheck::check_held() const {
  const int pp = program_.pp_of(rank_);
  for (int block = 0; block < program_.num_blocks(); ++block) {
    const std::vector<int>& holders = program_.holders[block];
    const bool says = std::find(holders.begin(), holders.end(), pp) != holders.end();
    if (at_.held[block] == says) continue;
    throw VerifyError(
        Defect::misplaced_block, rank_,
        fmt::format("rank {} {} block {} '{}', but the program says that pipeline rank {} {}", rank_,
                    says ? "does not hold" : "holds", block, program_.block_names[block], pp, says ? "does" : "does not"));
  }
}

void PresenceCheck::check_missing() const {
  if (at_.reduce_loss < 0) {
    throw VerifyError(Defect::missing_reduce, rank_,
                      fmt::format("rank {}: no reduce_loss, whose count scales the updates", rank_));
  }
  if (program_.needs_norm && at_.norm < 0) {
    throw VerifyError(Defect::missing_norm, rank_, fmt::format("rank {}: no norm, which scales the updates", rank_));
  }
  for (int block = 0; block < program_.num_blocks(); ++block) {
    if (at_.runs[block]) {
      check_run(block);
      check_sent(block);
    }
    if (is_left_out(program_, at_, block)) continue;
    owns_ ? check_updated(block) : check_summed(block);
    check_slots(block);
  }
}

void PresenceCheck::check_run(int block) const {
  for (int micro = micros_.first; micro < micros_.last; ++micro) {
    if (at_.forward_of(block, micro) < 0) {
      fail_missing(Defect::missing_forward, block, fmt::format("no forward for micro-batch {}", micro));
    }
    const bool has_input_part = at_.backward_of(block, micro) >= 0;
    if (has_input_part && at_.weight_of(block, micro) >= 0) continue;
    fail_missing(Defect::missing_backward, block,
                 fmt::format("no backward{} for micro-batch {}", has_input_part ? " of its weights" : "", micro));
  }
}

// Checks the sends that other ranks wait for: the next and the previous stage, and the other copies.
void PresenceCheck::check_sent(int block) const {
  const bool is_last = block + 1 == program_.num_blocks();
  for (int micro = 0; micro < program_.micro_batches && is_last; ++micro) check_sent_by(block, micro);
  for (int micro = micros_.first; micro < micros_.last; ++micro) {
    if (!is_last && !at_.runs[block + 1] && at_.sent_of(Payload::activation, block, micro) < 0) {
      fail_missing(Defect::missing_send, block, fmt::format("its output for micro-batch {} is never sent", micro));
    }
    if (block > 0 && !at_.runs[block - 1] && at_.sent_of(Payload::gradient, block - 1, micro) < 0) {
      fail_missing(Defect::missing_send, block,
                   fmt::format("the gradient of its input for micro-batch {} is never sent back", micro));
    }
  }
}

// Checks sends of micro-batch and gradient from the rank with the losses to a last block's rank, and of the output back.
void PresenceCheck::check_sent_by(int block, int micro) const {
  const bool own = micros_.has(micro);
  if (!owns_ && own && at_.sent_of(Payload::activation, block, micro) < 0) {
    fail_missing(Defect::missing_send, block, fmt::format("its output for micro-batch {} is never sent to the master", micro));
  }
  if (!owns_ || own) return;
  if (at_.sent.batch[micro] < 0) {
    throw VerifyError(Defect::missing_send, rank_,
                      fmt::format("rank {}: micro-batch {} is never sent to its rank", rank_, micro));
  }
  if (at_.sent_of(Payload::gradient, block, micro) < 0) {
    fail_missing(Defect::missing_send, block,
                 fmt::format("the gradient of its output for micro-batch {} is never sent back", micro));
  }
}

// A block's gradients reach the owner: each rank sends them once, after adding all that it receives (sum_check.h), and no ranks
// wait in a ring (transfer_check.h), so each arrives once.
void PresenceCheck::check_summed(int block) const {
  if (program_.block_numel[block] == 0 || at_.sum_sent[block] >= 0) return;
  fail_missing(Defect::missing_reduce, block, "its summed gradients are never sent towards the master");
}

void PresenceCheck::check_updated(int block) const {
  if (at_.update[block] < 0) fail_missing(Defect::missing_update, block, "never updated");
  if (at_.gather[block] < 0 && program_.gathers_gradients(block)) {
    fail_missing(
        Defect::bad_gather, block,
        fmt::format("updated by instruction {} without a gather of the whole gradients that it needs", at_.update[block]));
  }
  if (sharded() && at_.scatter_of(block, program_.micro_batches - 1) < 0) {
    fail_missing(Defect::missing_reduce, block,
                 fmt::format("updated by instruction {} without a reduce_scatter that includes the last micro-batch",
                             at_.update[block]));
  }
  if (at_.reduce[block] < 0 && program_.replicas > 1) {
    fail_missing(
        Defect::missing_reduce, block,
        fmt::format("updated by instruction {} without a reduce over the {} replicas", at_.update[block], program_.replicas));
  }
  if (at_.tie[block] < 0 && is_tied(program_, block)) {
    fail_missing(Defect::missing_reduce, block,
                 fmt::format("updated by instruction {} without a reduce over the {} stages that share it", at_.update[block],
                             program_.num_holders(block)));
  }
  for (int slot = 0; slot < program_.slots && program_.noise_scale && program_.block_numel[block] > 0; ++slot) {
    if (at_.squares_of(block, slot) >= 0) continue;
    fail_missing(Defect::bad_squares, block, fmt::format("no squares of the first micro-batch of slot {}", slot));
  }
}

void PresenceCheck::check_slots(int block) const {
  for (int slot = 0; slot < program_.slots && program_.slots > 1; ++slot) {
    if (at_.combine_of(block, slot) >= 0) continue;
    fail_missing(Defect::bad_combine, block, fmt::format("slot {} is never closed by a combine", slot));
  }
}

// Each rank runs its own micro-batches; everything except forward and backward is the owner's.
void PresenceCheck::check_work(int i) const {
  const Instruction& x = list_[i];
  const bool runs = x.op == Op::forward || is_backward(x.op);
  if (runs && !micros_.has(x.micro)) {
    fail(Defect::misplaced_block, i, fmt::format("this rank runs micro-batches {} to {}", micros_.first, micros_.last - 1));
  }
  const bool is_owners = x.op == Op::load || x.op == Op::loss || x.op == Op::update;
  if (is_owners && !owns_) fail(Defect::misplaced_block, i, "only the master may do it");
  const bool is_others = (x.op == Op::receive && x.what == Payload::weights) || (x.op == Op::send && x.what == Payload::sum);
  if (is_others && owns_) fail(Defect::misplaced_block, i, "only the other ranks may do it");
}

// Checks state and gradients of other ranks' blocks. A norm, or a sum of partial gradients, may span blocks between this
// rank's.
void PresenceCheck::check_place(int i) const {
  const Instruction& x = list_[i];
  const bool spans = x.op == Op::norm || is_transfer(x.op) || x.op == Op::load || x.op == Op::loss || x.op == Op::reduce_loss ||
                     sums_partial(x);
  for (int block = x.first; block < x.last && !spans; ++block) {
    if (at_.held[block]) continue;
    fail(Defect::misplaced_block, i, fmt::format("block {} '{}' is not on this rank", block, program_.block_names[block]));
  }
  if (x.op == Op::gather_gradients && !program_.gathers_gradients(x.first)) {
    fail(Defect::bad_gather, i, "no update needs whole gradients of that block");
  }
}

// Axes of the ranks that hold the operands of an instruction.
AxisSet PresenceCheck::axes_of(const Instruction& x) const {
  switch (x.op) {
    case Op::gather:
      return x.axes == kInnerAxis && program_.inner_shards > 1 ? kInnerAxis : kShardAxis;
    case Op::reduce_scatter:
    case Op::gather_gradients:
      return kShardAxis;
    case Op::reduce:
      if (tied_block(x) >= 0 && is_tied(program_, x.first) && x.last == x.first + 1) return kPipelineAxis;
      if (sums_partial(x) && program_.partial_gradients) return kTensorAxis;
      return replica_axes(program_);
    case Op::reduce_loss:
      return total_axes(program_);
    case Op::norm:
      return model_axes(program_);
    default:
      return {};
  }
}

void PresenceCheck::check_axis(int i) const {
  const AxisSet axes = axes_of(list_[i]);
  if (list_[i].axes == axes) return;
  fail(Defect::wrong_axis, i, fmt::format("over axis '{}', must be over '{}'", name(list_[i].axes), name(axes)));
}

}  // namespace

void check_presence(const Program& program, int rank, const StepIndex& at) { PresenceCheck(program, rank, at).run(); }

}  // namespace weft
