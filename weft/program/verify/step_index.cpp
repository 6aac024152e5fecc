#include "weft/program/verify/step_index.h"

#include <fmt/format.h>

#include <utility>

namespace weft {
namespace {

class Finder {
 public:
  Finder(const Program& program, int rank)
      : program_(program),
        list_(program.of(rank)),
        rank_(rank),
        blocks_(static_cast<int>(program.block_names.size())),
        per_slot_(program.micro_batches / program.slots),
        at_(blocks_, program.micro_batches, program.slots) {}

  StepIndex run() {
    for (int i = 0; i < static_cast<int>(list_.size()); ++i) note_place(i);
    for (int block = 0; block < blocks_; ++block) {
      if (!at_.runs[block]) continue;
      at_.held[block] = true;
      for (const int used : program_.block_uses[block]) at_.held[used] = true;
    }
    return std::move(at_);
  }

 private:
  [[noreturn]] void fail(Defect defect, int i, const std::string& text) const { fail_at(program_, rank_, i, defect, text); }
  void note_place(int i);
  void note_blocks(int i);
  void note_backward(int i);
  void note_transfer(int i);
  void note(int& place, int i, Defect defect, const std::string& text) const;

  const Program& program_;
  const InstructionList& list_;
  int rank_, blocks_, per_slot_;
  StepIndex at_;
};

void Finder::note(int& place, int i, Defect defect, const std::string& text) const {
  if (place >= 0) fail(defect, i, fmt::format("{} already by instruction {}", text, place));
  place = i;
}

void Finder::note_place(int i) {
  const Instruction& x = list_[i];
  switch (x.op) {
    case Op::load:
      return note(at_.load[x.micro], i, Defect::repeated, "loaded");
    case Op::forward:
      at_.runs[x.first] = true;
      if (at_.forward_of(x.first, x.micro) >= 0 && at_.drop_of(x.first, x.micro) >= 0)
        return note(at_.recompute.cell(x.first, x.micro), i, Defect::repeated, "computed again");
      return note(at_.forward.cell(x.first, x.micro), i, Defect::repeated, "run");
    case Op::drop:
      return note(at_.drop.cell(x.first, x.micro), i, Defect::repeated, "dropped");
    case Op::reduce_scatter:
      return note(at_.scatter.cell(x.first, x.micro), i, Defect::double_reduce, "reduced");
    case Op::gather:
    case Op::release:
    case Op::offload:
    case Op::reload:
      return;  // checked by state_check.h
    case Op::loss:
      return note(at_.loss[x.micro], i, Defect::repeated, "computed");
    case Op::backward:
    case Op::backward_input:
    case Op::backward_weight:
      return note_backward(i);
    case Op::send:
    case Op::receive:
      return note_transfer(i);
    case Op::squares:
      return note(at_.squares.cell(x.first, x.micro / per_slot_), i, Defect::bad_squares, "taken");
    case Op::reduce_loss:
      return note(at_.reduce_loss, i, Defect::repeated, "summed");
    case Op::norm:
      return note(at_.norm, i, Defect::repeated, "computed");
    case Op::gather_gradients:
      return note(at_.gather[x.first], i, Defect::bad_gather, "gathered");
    case Op::combine:
    case Op::reduce:
    case Op::update:
      return note_blocks(i);
  }
}

void Finder::note_backward(int i) {
  const Instruction& x = list_[i];
  at_.runs[x.first] = true;
  if (x.op != Op::backward_weight) note(at_.backward.cell(x.first, x.micro), i, Defect::double_backward, "run");
  if (x.op != Op::backward_input) note(at_.weight.cell(x.first, x.micro), i, Defect::double_backward, "added to the gradients");
}

void Finder::note_transfer(int i) {
  const Instruction& x = list_[i];
  const bool is_send = x.op == Op::send;
  const char* done = is_send ? "sent" : "received";
  StepIndex::Moved& moved = is_send ? at_.sent : at_.received;
  switch (x.what) {
    case Payload::batch:
      return note(moved.batch[x.micro], i, Defect::repeated, done);
    case Payload::weights:  // any number of receivers
      if (is_send) return at_.weights_sent[x.first].push_back(i);
      return note(at_.weights_received[x.first], i, Defect::repeated, done);
    case Payload::sum:  // any number of senders
      if (is_send) return note(at_.sum_sent[x.first], i, Defect::double_reduce, done);
      return at_.sums_received[x.first].push_back(i);
    case Payload::gradient:
      return note(moved.gradient.cell(x.first, x.micro), i, Defect::repeated, done);
    default:
      return note(moved.activation.cell(x.first, x.micro), i, Defect::repeated, done);
  }
}

void Finder::note_blocks(int i) {
  const Instruction& x = list_[i];
  for (int block = x.first; block < x.last; ++block) {
    const std::string which = fmt::format("block {} '{}' was", block, program_.block_names[block]);
    if (x.op == Op::combine) note(at_.combine.cell(block, x.slot), i, Defect::bad_combine, which + " closed");
    if (x.op == Op::reduce) {
      std::vector<int>& reduces = sums_partial(x) ? at_.partial : tied_block(x) >= 0 ? at_.tie : at_.reduce;
      note(reduces[block], i, Defect::double_reduce, which + " reduced");
    }
    if (x.op == Op::update) note(at_.update[block], i, Defect::double_update, which + " updated");
  }
}

}  // namespace

StepIndex::StepIndex(int blocks, int micro_batches, int slots)
    : load(micro_batches, -1),
      loss(micro_batches, -1),
      forward(blocks, micro_batches),
      backward(forward),
      weight(forward),
      drop(forward),
      recompute(forward),
      scatter(forward),
      combine(blocks, slots),
      squares(blocks, slots),
      reduce(blocks, -1),
      update(blocks, -1),
      gather(blocks, -1),
      tie(blocks, -1),
      partial(blocks, -1),
      runs(blocks, false),
      held(blocks, false),
      sent{forward, forward, load},
      received{forward, forward, load},
      weights_received(blocks, -1),
      sum_sent(blocks, -1),
      sums_received(blocks),
      weights_sent(blocks) {}

StepIndex index_step(const Program& program, int rank) { return Finder(program, rank).run(); }

bool is_tied(const Program& program, int block) { return program.is_shared(block) && program.block_numel[block] > 0; }

bool is_left_out(const Program& program, const StepIndex& at, int block) {
  return !at.held[block] || (program.shard_level != ShardLevel::none && program.block_numel[block] == 0);
}

void fail_at(const Program& program, int rank, int instruction, Defect defect, const std::string& text) {
  const std::string what = describe(program.of(rank)[instruction], program.block_names);
  throw VerifyError(defect, rank, fmt::format("rank {}, instruction {} ({}): {}", rank, instruction, what, text));
}

}  // namespace weft
