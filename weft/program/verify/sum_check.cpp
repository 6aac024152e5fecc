#include "weft/program/verify/sum_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "weft/program/defect.h"

namespace weft {

SumCheck::SumCheck(const Program& program, int rank, const StepIndex& at, const Order& order)
    : program_(program),
      list_(program.of(rank)),
      rank_(rank),
      blocks_(static_cast<int>(program.block_names.size())),
      micro_batches_(program.micro_batches),
      micros_(micros_run(program, program.pp_of(rank))),
      owns_(owns_blocks(program, program.pp_of(rank))),
      at_(at),
      order_(order),
      writers_(blocks_) {
  for (int block = 0; block < blocks_; ++block) {
    if (!at_.runs[block]) continue;
    writers_[block].push_back(block);
    for (const int used : program.block_uses[block]) writers_[used].push_back(block);
  }
}

void SumCheck::check(int i) const {
  switch (list_[i].op) {
    case Op::combine:
      return check_combine(i);
    case Op::reduce_scatter:
      return check_scatter(i);
    case Op::squares:
      return check_squares(i);
    case Op::reduce:
    case Op::reduce_loss:
      return check_reduce(i);
    case Op::norm:
      return check_norm(i);
    case Op::gather_gradients:
      return check_final(i);
    case Op::update:
      return check_update(i);
    case Op::send:
    case Op::receive:
      if (list_[i].what == Payload::sum) check_sum(i);
      return;
    default:
      return;
  }
}

// First of these micro-batches that may not have been added to the block's gradients when `i` starts, or -1. They are added in
// order (list_check.h), so the last one implies the others.
int SumCheck::unfinished_backward(int block, const MicroRange& micros, int i) const {
  for (const int writer : writers_[block]) {
    if (before(at_.weight_of(writer, micros.last - 1), i)) continue;
    int micro = micros.first;
    while (before(at_.weight_of(writer, micro), i)) ++micro;
    return micro;
  }
  return -1;
}

// Slots are closed in order because a slot's backwards wait for the combine of the slot before it.
void SumCheck::check_combine(int i) const {
  const Instruction& x = list_[i];
  for (int block = x.first; block < x.last; ++block) {
    const int micro = unfinished_backward(block, micros_of_slot(program_, micros_, x.slot), i);
    if (micro >= 0) {
      fail(Defect::bad_combine, i,
           fmt::format("micro-batch {} of the slot has not reached block {} '{}' yet", micro, block,
                       program_.block_names[block]));
    }
  }
}

// Reason why this rank's own sum of a block's gradients may be incomplete when `i` starts; empty if complete.
std::string SumCheck::not_summed_locally(int block, int i) const {
  const std::string& block_name = program_.block_names[block];
  const int micro = unfinished_backward(block, micros_, i);
  if (micro >= 0)
    return fmt::format("the backward of block {} '{}' for micro-batch {} has not been run yet", block, block_name, micro);
  const int last_slot = program_.slots - 1;
  if (last_slot > 0 && !before(at_.combine_of(block, last_slot), i)) {
    return fmt::format("the last slot of block {} '{}' has not been closed yet", block, block_name);
  }
  return {};
}

// The same for the sum over the data-parallel ranks and, of partial gradients, over tp.
std::string SumCheck::not_summed(int block, int i) const {
  if (!program_.partial_gradients) return not_summed_over_data(block, i);
  if (before(at_.partial[block], i)) return {};
  return fmt::format("it does not wait for the reduce of block {} '{}' over tp (instruction {})", block,
                     program_.block_names[block], at_.partial[block]);
}

std::string SumCheck::not_summed_over_data(int block, int i) const {
  if (sharded() && program_.replicas == 1) {
    if (before(last_scatter(block), i)) return {};
    return fmt::format("it does not wait for the last reduce_scatter of block {} '{}'", block, program_.block_names[block]);
  }
  if (std::string why = not_taken_in(block, i); !why.empty()) return why;
  if (program_.replicas == 1 && at_.reduce[block] < 0) return not_summed_locally(block, i);
  if (before(at_.reduce[block], i)) return {};
  return fmt::format("it does not wait for the reduce of block {} '{}' (instruction {})", block, program_.block_names[block],
                     at_.reduce[block]);
}

// Reason why sums from other ranks may not have been added yet.
std::string SumCheck::not_taken_in(int block, int i) const {
  for (const int received : at_.sums_received[block]) {
    if (before(received, i)) continue;
    return fmt::format("it does not wait for the gradients of block {} '{}' from rank {} (instruction {})", block,
                       program_.block_names[block], list_[received].peer, received);
  }
  return {};
}

// This rank's own sum must exist before other ranks' sums are added, and all must be added before the total is sent on. Sums
// are added in the order of the tree.
void SumCheck::check_sum(int i) const {
  const int block = list_[i].first;
  const std::vector<int>& received = at_.sums_received[block];
  const auto own = std::find(received.begin(), received.end(), i);
  if (own != received.end() && own != received.begin()) {
    const int earlier = *std::prev(own);
    if (!before(earlier, i) || list_[earlier].peer >= list_[i].peer) {
      fail(Defect::bad_order, i, fmt::format("must come after that of an earlier rank (instruction {})", earlier));
    }
  }
  std::string why = list_[i].op == Op::send ? not_taken_in(block, i) : std::string();
  if (why.empty()) why = not_summed_locally(block, i);
  if (!why.empty()) fail(Defect::early_reduce, i, why);
}

// The same for the sum over all ranks; empty for ranks that do not own the block.
std::string SumCheck::not_final(int block, int i) const {
  if (is_left_out(program_, at_, block) || !owns_) return {};
  if (!is_tied(program_, block)) return not_summed(block, i);
  if (before(at_.tie[block], i)) return {};
  return fmt::format("it does not wait for the reduce of block {} '{}' over the stages that share it (instruction {})", block,
                     program_.block_names[block], at_.tie[block]);
}

void SumCheck::check_reduce(int i) const {
  const Instruction& x = list_[i];
  if (x.op == Op::reduce_loss) {
    const bool has_losses = at_.runs[blocks_ - 1] && owns_;
    for (int micro = 0; micro < micro_batches_ && has_losses; ++micro) {
      if (before(at_.loss[micro], i)) continue;
      fail(Defect::early_reduce, i, fmt::format("the loss of micro-batch {} has not been computed yet", micro));
    }
    for (int block = 0; block < blocks_ && program_.flagged > 0; ++block) {
      if (!at_.runs[block] || unfinished_backward(block, micros_, i) < 0) continue;
      fail(Defect::early_reduce, i,
           fmt::format("a backward of block {} '{}', which decides which parameters have gradients, has not been run yet",
                       block, program_.block_names[block]));
    }
    return check_squares_before(i);
  }
  for (int block = x.first; block < x.last; ++block) {
    if (sums_partial(x) && is_left_out(program_, at_, block)) continue;
    const std::string why = sums_partial(x)      ? not_summed_over_data(block, i)
                            : tied_block(x) >= 0 ? not_summed(block, i)
                                                 : not_reducible(block, i);
    if (!why.empty()) fail(Defect::early_reduce, i, why);
  }
}

// Reason why a block's gradients may not be ready to be summed over the replicas.
std::string SumCheck::not_reducible(int block, int i) const {
  if (!sharded()) return not_summed_locally(block, i);
  if (before(last_scatter(block), i)) return {};
  return fmt::format("the last reduce_scatter of block {} '{}' has not finished yet", block, program_.block_names[block]);
}

// A reduce_scatter sums every micro-batch, up to its own, that no earlier one summed.
void SumCheck::check_scatter(int i) const {
  const Instruction& x = list_[i];
  const int micro = unfinished_backward(x.first, {.first = 0, .last = x.micro + 1}, i);
  if (micro >= 0) fail(Defect::early_reduce, i, fmt::format("the backward for micro-batch {} has not been run yet", micro));
  const int last_slot = program_.slots - 1;
  if (last_slot > 0 && !before(at_.combine_of(x.first, last_slot), i)) {
    fail(Defect::early_reduce, i, "the last slot has not been closed yet");
  }
}

// Squares are of one micro-batch alone if it has been added, no later one has, and no reduction has started.
void SumCheck::check_squares(int i) const {
  const Instruction& x = list_[i];
  const int per_slot = micro_batches_ / program_.slots, slot = x.micro / per_slot, last_slot = program_.slots - 1;
  if (!program_.noise_scale) fail(Defect::bad_squares, i, "the program measures no noise scale");
  if (x.micro % per_slot != 0) fail(Defect::bad_squares, i, "not the first micro-batch of a slot");
  if (unfinished_backward(x.first, {.first = x.micro, .last = x.micro + 1}, i) >= 0) {
    fail(Defect::bad_squares, i, "the backward for it has not been run yet");
  }
  const auto check_after = [&](int later) {
    if (later < 0 || before(i, later)) return;
    fail(Defect::bad_squares, i,
         fmt::format("instruction {} ({}) may already have changed them", later, describe(list_[later], program_.block_names)));
  };
  for (const int writer : writers_[x.first]) {
    if (x.micro + 1 < micro_batches_) check_after(at_.weight_of(writer, x.micro + 1));
  }
  if (last_slot > 0) check_after(at_.combine_of(x.first, slot));
  for (int micro = x.micro; micro < micro_batches_; ++micro) {
    if (at_.scatter_of(x.first, micro) < 0) continue;
    check_after(at_.scatter_of(x.first, micro));
    break;
  }
  if (!sharded()) check_after(at_.reduce[x.first]);
}

void SumCheck::check_squares_before(int i) const {
  for (int block = 0; block < blocks_; ++block) {
    for (int slot = 0; slot < program_.slots; ++slot) {
      const int squares = at_.squares_of(block, slot);
      if (squares < 0 || before(squares, i)) continue;
      fail(Defect::early_reduce, i,
           fmt::format("the squares of block {} '{}' (instruction {}) have not been taken yet", block,
                       program_.block_names[block], squares));
    }
  }
}

void SumCheck::check_norm(int i) const {
  for (int block = list_[i].first; block < list_[i].last; ++block) {
    const std::string why = not_final(block, i);
    if (!why.empty()) fail(Defect::early_norm, i, why);
  }
  if (before(at_.reduce_loss, i)) return;
  fail(Defect::early_norm, i, "it does not wait for the reduce_loss, whose count it divides by");
}

// Checks the inputs of an update, or of the gather for it: gradients and their scale.
void SumCheck::check_final(int i) const {
  const Instruction& x = list_[i];
  for (int block = x.first; block < x.last; ++block) {
    const std::string why = not_final(block, i);
    if (!why.empty()) fail(Defect::early_update, i, why);
  }
  if (!before(at_.reduce_loss, i)) {
    fail(Defect::early_update, i, "it does not wait for the reduce_loss, whose count it divides by");
  }
  if (at_.norm < 0) return;
  if (!before(at_.norm, i)) {
    fail(Defect::early_update, i, fmt::format("it does not wait for the norm (instruction {}) it is clipped by", at_.norm));
  }
  const Instruction& norm = list_[at_.norm];
  if (x.first < norm.first || x.last > norm.last) {
    fail(Defect::early_update, i, fmt::format("the norm (instruction {}) leaves out some of its blocks", at_.norm));
  }
}

void SumCheck::check_update(int i) const {
  check_final(i);
  const Instruction& x = list_[i];
  for (int block = x.first; block < x.last; ++block) {
    if (at_.gather[block] < 0 || before(at_.gather[block], i)) continue;
    fail(Defect::early_update, i,
         fmt::format("it does not wait for the gather of the gradients of block {} '{}' (instruction {})", block,
                     program_.block_names[block], at_.gather[block]));
  }
}

}  // namespace weft
