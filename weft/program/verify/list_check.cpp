#include "weft/program/verify/list_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "weft/program/copies.h"
#include "weft/program/defect.h"
#include "weft/program/verify/order.h"
#include "weft/program/verify/presence_check.h"
#include "weft/program/verify/step_index.h"
#include "weft/program/verify/sum_check.h"

namespace weft {
namespace {

class ListCheck {
 public:
  ListCheck(const Program& program, int rank)
      : program_(program),
        list_(program.of(rank)),
        rank_(rank),
        blocks_(static_cast<int>(program.block_names.size())),
        micros_(micros_run(program, program.pp_of(rank))),
        owns_(owns_blocks(program, program.pp_of(rank))),
        per_slot_((micros_.last - micros_.first) / program.slots),
        at_(index_step(program, rank)),
        scatters_(blocks_) {
    for (const Instruction& x : list_) {
      if (x.op == Op::reduce_scatter) scatters_[x.first].push_back(x.micro);
    }
    for (std::vector<int>& micros : scatters_) std::sort(micros.begin(), micros.end());
  }

  void run() {
    check_presence(program_, rank_, at_);
    const Order order(list_);
    order_ = &order;
    const SumCheck sums(program_, rank_, at_, order);
    for (int i = 0; i < static_cast<int>(list_.size()); ++i) {
      check_order(i);
      sums.check(i);
      check_pending_sends(i);
    }
  }

 private:
  [[noreturn]] void fail(Defect defect, int i, const std::string& text) const { fail_at(program_, rank_, i, defect, text); }
  void check_order(int i) const;
  void check_load(int i) const;
  void check_drop(int i) const;
  void check_forward(int i) const;
  void check_weights(int i) const;
  void check_backward(int i) const;
  void check_weight(int i) const;
  void check_send(int i) const;
  void check_pending_sends(int i);
  bool has_input(int block, int micro, int i) const;
  bool has_output_gradient(int block, int micro, int i) const;
  void check_adds_to(int i, int block) const;
  int last_scatter_before(int block, int micro) const;

  bool left_out(int block) const { return is_left_out(program_, at_, block); }
  bool before(int a, int b) const { return order_->before(a, b); }

  const Program& program_;
  const InstructionList& list_;
  int rank_, blocks_;
  MicroRange micros_;  // micro-batches of the rank
  bool owns_;          // the rank updates its blocks
  int per_slot_;
  StepIndex at_;
  std::vector<std::vector<int>> scatters_;  // by block: the micro-batches of its reduce_scatters, ascending
  const Order* order_ = nullptr;
  std::vector<int> sends_;  // since the last collective
};

void ListCheck::check_order(int i) const {
  switch (list_[i].op) {
    case Op::load:
      return check_load(i);
    case Op::send:
      return check_send(i);
    case Op::drop:
      return check_drop(i);
    case Op::forward:
    case Op::loss:
      return check_forward(i);
    case Op::backward:
    case Op::backward_input:
      return check_backward(i);
    case Op::backward_weight:
      return check_weight(i);
    default:  // checked by sum_check.h, state_check.h and transfer_check.h
      return;
  }
}

// Micro-batches load in order, so the number of earlier loads determines which one it gets.
void ListCheck::check_load(int i) const {
  const int micro = list_[i].micro;
  if (micro == 0 || before(at_.load[micro - 1], i)) return;
  fail(Defect::bad_order, i, fmt::format("micro-batch {} has not been loaded yet; they are loaded in order", micro - 1));
}

// The output is dropped too, so the instruction that takes it must have run.
void ListCheck::check_drop(int i) const {
  const Instruction& x = list_[i];
  if (!before(at_.forward_of(x.first, x.micro), i)) fail(Defect::use_before_load, i, "its forward has not been run yet");
  const bool is_last = x.first == blocks_ - 1;
  const int next = is_last && at_.loss[x.micro] >= 0 ? at_.loss[x.micro]
                   : is_last                         ? at_.sent_of(Payload::activation, x.first, x.micro)
                   : at_.runs[x.first + 1]           ? at_.forward_of(x.first + 1, x.micro)
                                                     : at_.sent_of(Payload::activation, x.first, x.micro);
  // A send keeps its data; it need only have started.
  const bool taken = before(next, i) || (next >= 0 && next < i && list_[next].op == Op::send);
  if (!taken) fail(Defect::use_before_load, i, "the instruction that takes its output has not been run yet");
}

// True if the input is ready: the previous block's output, computed or received; for the first block the micro-batch.
bool ListCheck::has_input(int block, int micro, int i) const {
  if (block == 0) return before(at_.load[micro] >= 0 ? at_.load[micro] : at_.received.batch[micro], i);
  const int computed = at_.forward_of(block - 1, micro);
  return before(computed >= 0 ? computed : at_.received_of(Payload::activation, block - 1, micro), i);
}

// True if the gradient of the block's output is ready: from the loss, computed here or received.
bool ListCheck::has_output_gradient(int block, int micro, int i) const {
  const bool has_loss = block == blocks_ - 1 && at_.loss[micro] >= 0;
  if (has_loss) return before(at_.loss[micro], i);
  return before(block + 1 < blocks_ && at_.runs[block + 1] ? at_.backward_of(block + 1, micro)
                                                           : at_.received_of(Payload::gradient, block, micro),
                i);
}

void ListCheck::check_forward(int i) const {
  const Instruction& x = list_[i];
  if (x.op == Op::forward) check_weights(i);
  for (size_t s = 0; x.op == Op::forward && s < at_.weights_sent[x.first].size(); ++s) {  // forward changes running statistics
    const int send = at_.weights_sent[x.first][s];
    if (!before(send, i)) fail(Defect::bad_order, i, fmt::format("its weights may be in flight (instruction {})", send));
  }
  const bool is_head = x.op == Op::forward && program_.takes_targets(x.first);
  const bool has_batch = x.op == Op::loss || is_head ? before(at_.load[x.micro], i) : x.first > 0 || has_input(0, x.micro, i);
  if (!has_batch) {
    fail(Defect::use_before_load, i,
         fmt::format("micro-batch {} has not been loaded yet{}", x.micro,
                     is_head ? "; the block makes the losses from its targets (layout.loss_chunk)" : ""));
  }
  if (x.op == Op::forward && i == at_.recompute_of(x.first, x.micro) && !before(at_.drop_of(x.first, x.micro), i)) {
    fail(Defect::repeated, i, "recomputed before it was dropped");
  }
  const int block = x.op == Op::loss ? blocks_ : x.first;
  if (has_input(block, x.micro, i)) return;
  fail(Defect::use_before_load, i,
       fmt::format("its input, the output of block {} '{}', has not been {} yet", block - 1, program_.block_names[block - 1],
                   at_.runs[block - 1] && micros_.has(x.micro) ? "computed" : "received"));
}

// Ranks that do not own the weights receive them in every step.
void ListCheck::check_weights(int i) const {
  if (owns_) return;
  const auto check = [&](int block) {
    if (program_.weight_numel(block) == 0 || before(at_.weights_received[block], i)) return;
    fail(Defect::not_gathered, i,
         fmt::format("the weights of block {} '{}' have not been received yet", block, program_.block_names[block]));
  };
  const Instruction& x = list_[i];
  check(x.first);
  if (x.op != Op::forward) return;
  for (const int block : program_.block_uses[x.first]) check(block);
}

void ListCheck::check_send(int i) const {
  const Instruction& x = list_[i];
  if (x.what == Payload::sum) return;  // sum_check.h
  if (x.what == Payload::weights) return check_weights(i);
  if (x.what == Payload::batch) {
    if (!before(at_.load[x.micro], i)) fail(Defect::use_before_load, i, "it has not been loaded yet");
    return;
  }
  if (x.what == Payload::activation) {
    if (!before(at_.forward_of(x.first, x.micro), i)) fail(Defect::use_before_load, i, "it has not been computed yet");
    return;
  }
  const bool is_last = x.first + 1 == blocks_;
  if (!before(is_last ? at_.loss[x.micro] : at_.backward_of(x.first + 1, x.micro), i)) {
    fail(Defect::backward_before_loss, i, "the backward that makes it has not been run yet");
  }
}

// Sends before the last collective had ended when that collective started.
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
    fail(Defect::backward_before_loss, i, "its forward has not been run yet");
  }
  if (!has_output_gradient(x.first, x.micro, i)) {
    const bool is_last = x.first == blocks_ - 1;
    std::string what = "the gradient of its output has not been received";
    if (is_last && owns_) {
      what = fmt::format("the loss of micro-batch {} has not been computed", x.micro);
    } else if (!is_last && at_.runs[x.first + 1]) {
      what = fmt::format("the backward of the next block, {} '{}', has not been run", x.first + 1,
                         program_.block_names[x.first + 1]);
    }
    fail(Defect::backward_before_loss, i, what + " yet");
  }
  if (at_.drop_of(x.first, x.micro) >= 0 && !before(at_.recompute_of(x.first, x.micro), i)) {
    fail(Defect::missing_recompute, i,
         fmt::format("its activations were dropped by instruction {} and have not been recomputed yet",
                     at_.drop_of(x.first, x.micro)));
  }
  if (x.op == Op::backward) check_weight(i);
}

void ListCheck::check_weight(int i) const {
  const Instruction& x = list_[i];
  if (x.op == Op::backward_weight && !before(at_.backward_of(x.first, x.micro), i)) {
    fail(Defect::backward_before_loss, i, "the part that makes the input's gradient has not been run yet");
  }
  if (x.micro > micros_.first && !before(at_.weight_of(x.first, x.micro - 1), i)) {
    fail(Defect::bad_order, i,
         fmt::format("micro-batch {} has not been added to its gradients yet; they are summed in order", x.micro - 1));
  }
  check_adds_to(i, x.first);
  for (int block : program_.block_uses[x.first]) check_adds_to(i, block);
}

// The last reduce_scatter of an earlier micro-batch, or -1.
int ListCheck::last_scatter_before(int block, int micro) const {
  const std::vector<int>& of_block = scatters_[block];
  const auto end = std::lower_bound(of_block.begin(), of_block.end(), micro);
  return end == of_block.begin() ? -1 : at_.scatter_of(block, *(end - 1));
}

// Earlier micro-batches must have been reduced, or their slot closed, before gradients of another are added.
void ListCheck::check_adds_to(int i, int block) const {
  const Instruction& x = list_[i];
  const int scatter = last_scatter_before(block, x.micro);
  if (scatter >= 0 && !before(scatter, i)) {
    fail(Defect::early_reduce, i, fmt::format("adds to gradients that instruction {} is still reducing", scatter));
  }
  const int slot = (x.micro - micros_.first) / per_slot_;
  if (slot > 0 && !left_out(block) && !before(at_.combine_of(block, slot - 1), i)) {
    fail(Defect::bad_combine, i,
         fmt::format("adds micro-batch {} of slot {} before slot {} has been closed", x.micro, slot, slot - 1));
  }
}

}  // namespace

void check_list(const Program& program, int rank) { ListCheck(program, rank).run(); }

}  // namespace weft
