#include "weft/program/places.h"

#include <fmt/format.h>

namespace weft {
namespace {

class Finder {
 public:
  Finder(const Program& program, int rank)
      : program_(program),
        list_(program.of(rank)),
        rank_(rank),
        blocks_(static_cast<int>(program.block_names.size())),
        at_(blocks_, program.micro_batches, program.slots) {}

  Places run() {
    const int size = static_cast<int>(list_.size());
    for (int i = 0; i < size; ++i) {
      check_ranges(i);
      check_waits(i);
    }
    for (int i = 0; i < size; ++i) note_place(i);
    for (int block = 0; block < blocks_; ++block) {
      if (!at_.runs[block]) continue;
      at_.held[block] = true;
      for (const int used : program_.block_uses[block]) at_.held[used] = true;
    }
    return at_;
  }

 private:
  [[noreturn]] void fail(Defect defect, int i, const std::string& text) const { fail_at(program_, rank_, i, defect, text); }
  void check_ranges(int i) const;
  void check_waits(int i) const;
  void note_place(int i);
  void note_blocks(int i);
  void note_backward(int i);
  void note_transfer(int i);
  void note(int& place, int i, Defect defect, const std::string& text) const;

  const Program& program_;
  const InstructionList& list_;
  int rank_, blocks_;
  Places at_;
};

void Finder::check_ranges(int i) const {
  const Instruction& x = list_[i];
  const bool on_one_block = takes_one_block(x.op);
  const bool on_micro = takes_micro_batch(x);
  const bool on_blocks = on_one_block || x.op == Op::combine || x.op == Op::reduce || x.op == Op::norm || x.op == Op::update;
  if (on_micro && (x.micro < 0 || x.micro >= program_.micro_batches)) {
    fail(Defect::out_of_range, i, fmt::format("micro-batch {} of {}", x.micro, program_.micro_batches));
  }
  if (on_blocks && (x.first < 0 || x.first >= x.last || x.last > blocks_)) {
    fail(Defect::out_of_range, i, fmt::format("blocks [{}, {}) of {}", x.first, x.last, blocks_));
  }
  if (on_one_block && x.last != x.first + 1) {
    fail(Defect::out_of_range, i, fmt::format("takes one block, not {}", x.last - x.first));
  }
  if (is_transfer(x.op) && (x.peer < 0 || x.peer >= program_.mesh.pp)) {
    fail(Defect::out_of_range, i, fmt::format("pipeline rank {} of {}", x.peer, program_.mesh.pp));
  }
  if (is_transfer(x.op) && x.what != Matter::activation && x.what != Matter::gradient) {
    fail(Defect::out_of_range, i, "neither an activation nor its gradient");
  }
  if (x.op == Op::combine && (x.slot < 0 || x.slot >= program_.slots)) {
    fail(Defect::out_of_range, i, fmt::format("slot {} of {}", x.slot, program_.slots));
  }
}

void Finder::check_waits(int i) const {
  const int size = static_cast<int>(list_.size());
  for (int wait : list_[i].waits) {
    if (wait < 0 || wait >= size) {
      fail(Defect::bad_wait, i, fmt::format("waits for instruction {}, but the list has {}", wait, size));
    }
    if (wait >= i) fail(Defect::bad_wait, i, fmt::format("waits for instruction {}, which does not come before it", wait));
  }
}

void Finder::note(int& place, int i, Defect defect, const std::string& text) const {
  if (place >= 0) fail(defect, i, fmt::format("{} already by instruction {}", text, place));
  place = i;
}

void Finder::note_place(int i) {
  const Instruction& x = list_[i];
  const int cell = x.first * program_.micro_batches + x.micro;
  switch (x.op) {
    case Op::load:
      return note(at_.load[x.micro], i, Defect::repeated, "loaded");
    case Op::forward:
      at_.runs[x.first] = true;
      if (at_.forward[cell] >= 0 && at_.drop[cell] >= 0)
        return note(at_.recompute[cell], i, Defect::repeated, "computed again");
      return note(at_.forward[cell], i, Defect::repeated, "run");
    case Op::drop:
      return note(at_.drop[cell], i, Defect::repeated, "dropped");
    case Op::reduce_scatter:
      return note(at_.scatter[cell], i, Defect::double_reduce, "reduced");
    case Op::gather:
    case Op::release:
    case Op::evict:
    case Op::fetch:
      return;  // state_check.h follows them
    case Op::loss:
      return note(at_.loss[x.micro], i, Defect::repeated, "computed");
    case Op::backward:
    case Op::backward_input:
    case Op::backward_weight:
      return note_backward(i);
    case Op::send:
    case Op::receive:
      return note_transfer(i);
    case Op::reduce_loss:
      return note(at_.reduce_loss, i, Defect::repeated, "summed");
    case Op::norm:
      return note(at_.norm, i, Defect::repeated, "computed");
    case Op::combine:
    case Op::reduce:
    case Op::update:
      return note_blocks(i);
  }
}

void Finder::note_backward(int i) {
  const Instruction& x = list_[i];
  const int cell = x.first * program_.micro_batches + x.micro;
  at_.runs[x.first] = true;
  if (x.op != Op::backward_weight) note(at_.backward[cell], i, Defect::double_backward, "run");
  if (x.op != Op::backward_input) note(at_.weight[cell], i, Defect::double_backward, "added to the gradients");
}

void Finder::note_transfer(int i) {
  const Instruction& x = list_[i];
  const int cell = x.first * program_.micro_batches + x.micro;
  Places::Moved& moved = x.op == Op::send ? at_.sent : at_.received;
  note((x.what == Matter::gradient ? moved.gradient : moved.activation)[cell], i, Defect::repeated,
       x.op == Op::send ? "sent" : "received");
}

void Finder::note_blocks(int i) {
  const Instruction& x = list_[i];
  for (int block = x.first; block < x.last; ++block) {
    const std::string which = fmt::format("block {} '{}' was", block, program_.block_names[block]);
    if (x.op == Op::combine) note(at_.combine[block * program_.slots + x.slot], i, Defect::bad_combine, which + " closed");
    if (x.op == Op::reduce) {
      note(x.axis == AxisName::tied ? at_.tie[block] : at_.reduce[block], i, Defect::double_reduce, which + " reduced");
    }
    if (x.op == Op::update) note(at_.update[block], i, Defect::double_update, which + " updated");
  }
}

}  // namespace

Places::Places(int blocks, int micro_batches, int slots)
    : micro_batches(micro_batches),
      slots(slots),
      load(micro_batches, -1),
      loss(micro_batches, -1),
      forward(blocks * micro_batches, -1),
      backward(blocks * micro_batches, -1),
      weight(blocks * micro_batches, -1),
      drop(blocks * micro_batches, -1),
      recompute(blocks * micro_batches, -1),
      scatter(blocks * micro_batches, -1),
      combine(blocks * slots, -1),
      reduce(blocks, -1),
      update(blocks, -1),
      tie(blocks, -1),
      runs(blocks, false),
      held(blocks, false),
      sent{drop, drop},
      received{drop, drop} {}

Places find_places(const Program& program, int rank) { return Finder(program, rank).run(); }

bool is_tied(const Program& program, int block) { return program.num_holders(block) > 1 && program.block_numel[block] > 0; }

bool is_left_out(const Program& program, const Places& at, int block) {
  return !at.held[block] || (program.shard_level != ShardLevel::none && program.block_numel[block] == 0);
}

void fail_at(const Program& program, int rank, int instruction, Defect defect, const std::string& text) {
  const std::string what = describe(program.of(rank)[instruction], program.block_names);
  throw VerifyError(defect, rank, fmt::format("rank {}, instruction {} ({}): {}", rank, instruction, what, text));
}

}  // namespace weft
