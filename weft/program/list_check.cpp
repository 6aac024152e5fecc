#include "weft/program/list_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "weft/program/defect.h"
#include "weft/program/order.h"
#include "weft/program/places.h"
#include "weft/program/presence_check.h"

namespace weft {
namespace {

class ListCheck {
 public:
  ListCheck(const Program& program, int rank)
      : program_(program),
        list_(program.of(rank)),
        rank_(rank),
        blocks_(static_cast<int>(program.block_names.size())),
        micro_batches_(program.micro_batches),
        per_slot_(program.micro_batches / program.slots),
        at_(find_places(program, rank)),
        writers_(blocks_),
        scatters_(blocks_) {
    for (int block = 0; block < blocks_; ++block) {
      if (!at_.runs[block]) continue;
      writers_[block].push_back(block);
      for (const int used : program.block_uses[block]) writers_[used].push_back(block);
    }
    for (const Instruction& x : list_) {
      if (x.op == Op::reduce_scatter) scatters_[x.first].push_back(x.micro);
    }
    for (std::vector<int>& micros : scatters_) std::sort(micros.begin(), micros.end());
  }

  void run() {
    check_presence(program_, rank_, at_);
    const Order order(list_);
    order_ = &order;
    for (int i = 0; i < static_cast<int>(list_.size()); ++i) {
      check_order(i);
      check_pending_sends(i);
    }
  }

 private:
  [[noreturn]] void fail(Defect defect, int i, const std::string& text) const { fail_at(program_, rank_, i, defect, text); }
  void check_order(int i) const;
  void check_load(int i) const;
  void check_drop(int i) const;
  void check_forward(int i) const;
  void check_backward(int i) const;
  void check_weight(int i) const;
  void check_send(int i) const;
  void check_pending_sends(int i);
  bool has_input(int block, int micro, int i) const;
  bool has_output_gradient(int block, int micro, int i) const;
  void check_adds_to(int i, int block) const;
  int last_scatter_before(int block, int micro) const;
  void check_combine(int i) const;
  void check_scatter(int i) const;
  void check_reduce(int i) const;
  void check_norm(int i) const;
  void check_update(int i) const;

  bool sharded() const { return program_.shard_level != ShardLevel::none; }
  bool left_out(int block) const { return is_left_out(program_, at_, block); }
  int last_scatter(int block) const { return at_.scatter_of(block, micro_batches_ - 1); }
  bool before(int a, int b) const { return order_->before(a, b); }
  int unfinished_backward(int block, int begin_micro, int end_micro, int i) const;
  std::string not_summed_locally(int block, int i) const;
  std::string not_reducible(int block, int i) const;
  std::string not_summed(int block, int i) const;
  std::string not_final(int block, int i) const;

  const Program& program_;
  const InstructionList& list_;
  int rank_, blocks_, micro_batches_, per_slot_;
  Places at_;
  std::vector<std::vector<int>> writers_;   // by block: those that this rank runs and that add to its gradients
  std::vector<std::vector<int>> scatters_;  // by block: the micro-batches of its reduce_scatters, ascending
  const Order* order_ = nullptr;
  std::vector<int> sends_;  // since the last collective
};

void ListCheck::check_order(int i) const {
  switch (list_[i].op) {
    case Op::load:
      return check_load(i);
    case Op::gather:
    case Op::release:
    case Op::evict:
    case Op::fetch:
    case Op::receive:  // transfer_check.h compares it with its send
      return;
    case Op::send:
      return check_send(i);
    case Op::drop:
      return check_drop(i);
    case Op::reduce_scatter:
      return check_scatter(i);
    case Op::forward:
    case Op::loss:
      return check_forward(i);
    case Op::backward:
    case Op::backward_input:
      return check_backward(i);
    case Op::backward_weight:
      return check_weight(i);
    case Op::combine:
      return check_combine(i);
    case Op::reduce:
    case Op::reduce_loss:
      return check_reduce(i);
    case Op::norm:
      return check_norm(i);
    case Op::update:
      return check_update(i);
  }
}

// Which micro-batch it gets is told by how many were taken before: the loader hands them out in order.
void ListCheck::check_load(int i) const {
  const int micro = list_[i].micro;
  if (micro == 0 || before(at_.load[micro - 1], i)) return;
  fail(Defect::bad_order, i, fmt::format("micro-batch {} has not been loaded by then; they are loaded in order", micro - 1));
}

// The output goes with what was kept, so whoever takes it must have it by then.
void ListCheck::check_drop(int i) const {
  const Instruction& x = list_[i];
  if (!before(at_.forward_of(x.first, x.micro), i)) fail(Defect::use_before_load, i, "its forward has not been run by then");
  const bool is_last = x.first == blocks_ - 1;
  const int next = is_last                 ? at_.loss[x.micro]
                   : at_.runs[x.first + 1] ? at_.forward_of(x.first + 1, x.micro)
                                           : at_.sent_of(Matter::activation, x.first, x.micro);
  // A send keeps what it sends; it need only have started.
  const bool taken = before(next, i) || (next >= 0 && next < i && list_[next].op == Op::send);
  if (!taken) fail(Defect::use_before_load, i, "whoever takes its output has not been run by then");
}

// The output of the block before it, computed here or received.
bool ListCheck::has_input(int block, int micro, int i) const {
  if (block == 0) return before(at_.load[micro], i);
  return before(at_.runs[block - 1] ? at_.forward_of(block - 1, micro) : at_.received_of(Matter::activation, block - 1, micro),
                i);
}

// The gradient of its output, from the loss, computed here or received.
bool ListCheck::has_output_gradient(int block, int micro, int i) const {
  if (block == blocks_ - 1) return before(at_.loss[micro], i);
  return before(at_.runs[block + 1] ? at_.backward_of(block + 1, micro) : at_.received_of(Matter::gradient, block, micro), i);
}

void ListCheck::check_forward(int i) const {
  const Instruction& x = list_[i];
  const bool reads_batch = x.op == Op::loss || x.first == 0;
  if (reads_batch && !before(at_.load[x.micro], i)) {
    fail(Defect::use_before_load, i, fmt::format("micro-batch {} has not been loaded by then", x.micro));
  }
  if (x.op == Op::forward && i == at_.recompute_of(x.first, x.micro) && !before(at_.drop_of(x.first, x.micro), i)) {
    fail(Defect::repeated, i, "computed again before it was dropped");
  }
  const int block = x.op == Op::loss ? blocks_ : x.first;
  if (has_input(block, x.micro, i)) return;
  fail(Defect::use_before_load, i,
       fmt::format("its input, the output of block {} '{}', has not been {} by then", block - 1,
                   program_.block_names[block - 1], at_.runs[block - 1] ? "computed" : "received"));
}

void ListCheck::check_send(int i) const {
  const Instruction& x = list_[i];
  if (x.what == Matter::activation) {
    if (!before(at_.forward_of(x.first, x.micro), i)) fail(Defect::use_before_load, i, "it has not been computed by then");
    return;
  }
  if (x.first + 1 == blocks_ || !before(at_.backward_of(x.first + 1, x.micro), i)) {
    fail(Defect::backward_before_loss, i, "the backward that makes it has not been run by then");
  }
}

// Those before the last collective had ended when that one started.
void ListCheck::check_pending_sends(int i) {
  if (list_[i].op == Op::send) sends_.push_back(i);
  if (!is_collective(list_[i])) return;
  for (const int send : sends_) {
    if (before(send, i)) continue;
    fail(Defect::pending_send, i,
         fmt::format("it does not wait for instruction {} ({})", send, describe(list_[send], program_.block_names)));
  }
  sends_.clear();
}

void ListCheck::check_backward(int i) const {
  const Instruction& x = list_[i];
  if (!before(at_.forward_of(x.first, x.micro), i)) {
    fail(Defect::backward_before_loss, i, "its forward has not been run by then");
  }
  if (!has_output_gradient(x.first, x.micro, i)) {
    const bool is_last = x.first == blocks_ - 1;
    fail(Defect::backward_before_loss, i,
         is_last                 ? fmt::format("the loss of micro-batch {} has not been computed by then", x.micro)
         : at_.runs[x.first + 1] ? fmt::format("the backward of the next block, {} '{}', has not been run by then", x.first + 1,
                                               program_.block_names[x.first + 1])
                                 : "the gradient of its output has not been received by then");
  }
  if (at_.drop_of(x.first, x.micro) >= 0 && !before(at_.recompute_of(x.first, x.micro), i)) {
    fail(Defect::missing_recompute, i,
         fmt::format("what its forward kept was dropped by instruction {} and has not been computed again by then",
                     at_.drop_of(x.first, x.micro)));
  }
  if (x.op == Op::backward) check_weight(i);
}

void ListCheck::check_weight(int i) const {
  const Instruction& x = list_[i];
  if (x.op == Op::backward_weight && !before(at_.backward_of(x.first, x.micro), i)) {
    fail(Defect::backward_before_loss, i, "the part of it that makes the input's gradient has not been run by then");
  }
  if (x.micro > 0 && !before(at_.weight_of(x.first, x.micro - 1), i)) {
    fail(Defect::bad_order, i,
         fmt::format("micro-batch {} has not been added to its gradients by then; they are summed in order", x.micro - 1));
  }
  check_adds_to(i, x.first);
  for (int block : program_.block_uses[x.first]) check_adds_to(i, block);
}

// The reduce_scatter of the latest micro-batch before this one that has one, or -1.
int ListCheck::last_scatter_before(int block, int micro) const {
  const std::vector<int>& of_block = scatters_[block];
  const auto end = std::lower_bound(of_block.begin(), of_block.end(), micro);
  return end == of_block.begin() ? -1 : at_.scatter_of(block, *(end - 1));
}

// What earlier micro-batches left in a block's gradients must have been taken out, or closed off, before more is added.
void ListCheck::check_adds_to(int i, int block) const {
  const Instruction& x = list_[i];
  const int scatter = last_scatter_before(block, x.micro);
  if (scatter >= 0 && !before(scatter, i)) {
    fail(Defect::early_reduce, i, fmt::format("adds to gradients that instruction {} is still reducing", scatter));
  }
  const int slot = x.micro / per_slot_;
  if (slot > 0 && !left_out(block) && !before(at_.combine_of(block, slot - 1), i)) {
    fail(Defect::bad_combine, i,
         fmt::format("adds micro-batch {} of slot {} before slot {} has been closed", x.micro, slot, slot - 1));
  }
}

// The first micro-batch of [begin_micro, end_micro) that may not have been added to the block's gradients when `i` starts, or
// -1. They are added in order (check_weight), so that where the last one has been all have.
int ListCheck::unfinished_backward(int block, int begin_micro, int end_micro, int i) const {
  for (const int writer : writers_[block]) {
    if (before(at_.weight_of(writer, end_micro - 1), i)) continue;
    int micro = begin_micro;
    while (before(at_.weight_of(writer, micro), i)) ++micro;
    return micro;
  }
  return -1;
}

// Slots are closed in order because the backwards of a slot wait for the combine of the slot before it.
void ListCheck::check_combine(int i) const {
  const Instruction& x = list_[i];
  for (int block = x.first; block < x.last; ++block) {
    const int micro = unfinished_backward(block, x.slot * per_slot_, (x.slot + 1) * per_slot_, i);
    if (micro >= 0) {
      fail(Defect::bad_combine, i,
           fmt::format("micro-batch {} of the slot has not reached block {} '{}' by then", micro, block,
                       program_.block_names[block]));
    }
  }
}

// Why this rank's own sum of a block's gradients may not be whole when `i` starts; empty when it is.
std::string ListCheck::not_summed_locally(int block, int i) const {
  const std::string& block_name = program_.block_names[block];
  const int micro = unfinished_backward(block, 0, micro_batches_, i);
  if (micro >= 0)
    return fmt::format("the backward of block {} '{}' for micro-batch {} has not been run by then", block, block_name, micro);
  const int last_slot = program_.slots - 1;
  if (last_slot > 0 && !before(at_.combine_of(block, last_slot), i)) {
    return fmt::format("the last slot of block {} '{}' has not been closed by then", block, block_name);
  }
  return {};
}

// The same for the sum over the data-parallel ranks.
std::string ListCheck::not_summed(int block, int i) const {
  if (sharded() && program_.replicas == 1) {
    if (before(last_scatter(block), i)) return {};
    return fmt::format("it does not wait for the last reduce_scatter of block {} '{}'", block, program_.block_names[block]);
  }
  if (program_.replicas == 1 && at_.reduce[block] < 0) return not_summed_locally(block, i);
  if (before(at_.reduce[block], i)) return {};
  return fmt::format("it does not wait for the reduce of block {} '{}' (instruction {})", block, program_.block_names[block],
                     at_.reduce[block]);
}

// The same for the sum over all ranks.
std::string ListCheck::not_final(int block, int i) const {
  if (left_out(block)) return {};
  if (!is_tied(program_, block)) return not_summed(block, i);
  if (before(at_.tie[block], i)) return {};
  return fmt::format("it does not wait for the reduce of block {} '{}' over the stages that share it (instruction {})", block,
                     program_.block_names[block], at_.tie[block]);
}

void ListCheck::check_reduce(int i) const {
  const Instruction& x = list_[i];
  if (x.op == Op::reduce_loss) {
    for (int micro = 0; micro < micro_batches_ && at_.runs[blocks_ - 1]; ++micro) {
      if (before(at_.loss[micro], i)) continue;
      fail(Defect::early_reduce, i, fmt::format("the loss of micro-batch {} has not been computed by then", micro));
    }
    return;
  }
  for (int block = x.first; block < x.last; ++block) {
    const std::string why = x.axis == AxisName::tied ? not_summed(block, i) : not_reducible(block, i);
    if (!why.empty()) fail(Defect::early_reduce, i, why);
  }
}

// Why a block's part of the gradients may not be ready to be summed over the replicas.
std::string ListCheck::not_reducible(int block, int i) const {
  if (!sharded()) return not_summed_locally(block, i);
  if (before(last_scatter(block), i)) return {};
  return fmt::format("the last reduce_scatter of block {} '{}' has not finished by then", block, program_.block_names[block]);
}

// It takes in every micro-batch up to its own that no earlier one took in.
void ListCheck::check_scatter(int i) const {
  const Instruction& x = list_[i];
  const int micro = unfinished_backward(x.first, 0, x.micro + 1, i);
  if (micro >= 0) fail(Defect::early_reduce, i, fmt::format("the backward for micro-batch {} has not been run by then", micro));
  const int last_slot = program_.slots - 1;
  if (last_slot > 0 && !before(at_.combine_of(x.first, last_slot), i)) {
    fail(Defect::early_reduce, i, "the last slot has not been closed by then");
  }
}

void ListCheck::check_norm(int i) const {
  for (int block = list_[i].first; block < list_[i].last; ++block) {
    const std::string why = not_final(block, i);
    if (!why.empty()) fail(Defect::early_norm, i, why);
  }
  if (before(at_.reduce_loss, i)) return;
  fail(Defect::early_norm, i, "it does not wait for the reduce_loss, whose count it divides by");
}

void ListCheck::check_update(int i) const {
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

}  // namespace

void check_list(const Program& program, int rank) { ListCheck(program, rank).run(); }

}  // namespace weft
