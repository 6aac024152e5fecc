// Gradient sums of a step: over slots, over ranks, and over the uses of a weight.
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "weft/engine/memory_ledger.h"
#include "weft/engine/step_run.h"
#include "weft/program/ties.h"

namespace weft {

namespace {

/// Partial gradients, joined for one call and put back after it.
class Partial : public Work::State {
 public:
  Partial(Work call, at::Tensor joined, Tensors places)
      : call_(std::move(call)), joined_(std::move(joined)), places_(std::move(places)) {}
  void wait() override {
    if (!joined_.defined()) return;
    call_.wait();
    c10::NoGradGuard no_grad;
    std::vector<int64_t> numels;
    for (const at::Tensor& place : places_) numels.push_back(place.numel());
    at::_foreach_copy_(places_, std::exchange(joined_, {}).split_with_sizes(numels));
  }

 private:
  Work call_;
  at::Tensor joined_;
  Tensors places_;
};

}  // namespace

/// Closes slot s: with t trailing ones in s, the last t partial sums join it, left operand first, like the carries of a binary
/// counter.
void StepRun::combine(const Instruction& instruction) {
  c10::NoGradGuard no_grad;
  int level = 0;
  for (; (instruction.slot >> level) & 1; ++level) {
    for (int b = instruction.first; b < instruction.last; ++b) {
      const at::Tensor& all = model_.flat(b).all_gradients;
      all.add_(stashes_[level].narrow(0, model_.gradient_offset(b), all.numel()));
    }
  }
  if (instruction.slot == program_->slots - 1) return;  // the rank's last slot: the sum stays where it is
  if (static_cast<int>(stashes_.size()) <= level) stashes_.resize(level + 1);
  if (!stashes_[level].defined()) {
    stashes_[level] = at::zeros({model_.gradients_numel()},
                                at::TensorOptions(model_.options().gradient_dtype).device(model_.options().device));
  }
  for (int b = instruction.first; b < instruction.last; ++b) {
    const at::Tensor& all = model_.flat(b).all_gradients;
    stashes_[level].narrow(0, model_.gradient_offset(b), all.numel()).copy_(all);
    model_.clear_gradients(b);
  }
}

/// A reduce-scatter whose result, once waited for, is added to that of earlier micro-batches. The next backward to fill the
/// block's gradients waits for it, so a block's sums are added in micro-batch order.
class StepRun::Joining : public Work::State {
 public:
  Joining(Work call, at::Tensor part, at::Tensor sum) : call_(std::move(call)), part_(std::move(part)), sum_(std::move(sum)) {}
  void wait() override {
    if (!part_.defined()) return;
    call_.wait();
    c10::NoGradGuard no_grad;
    const MemoryScope scope(MemoryCategory::gradients);
    sum_.add_(std::exchange(part_, {}));
  }

 private:
  Work call_;
  at::Tensor part_, sum_;
};

/// Several collectives, one per use of the block's weights.
class StepRun::Calls : public Work::State {
 public:
  explicit Calls(std::vector<Work> calls) : calls_(std::move(calls)) {}
  void wait() override {
    for (Work& call : calls_) call.wait();
  }

 private:
  std::vector<Work> calls_;
};

/// Rows of a tied weight's uses: one rank has a row's sum, the others zeros. Adds the rows in order after the exchange.
class StepRun::Rows : public Work::State {
 public:
  Rows(Work call, at::Tensor rows, at::Tensor sum) : call_(std::move(call)), rows_(std::move(rows)), sum_(std::move(sum)) {}
  void wait() override {
    if (!rows_.defined()) return;
    call_.wait();
    c10::NoGradGuard no_grad;
    sum_.zero_();
    for (const at::Tensor& row : rows_.unbind(0)) sum_.add_(row);
    rows_.reset();
  }

 private:
  Work call_;
  at::Tensor rows_, sum_;
};

Work StepRun::reduce_scatter(const Instruction& instruction) {
  const int block = instruction.first;
  FlatBlock& flat = model_.flat(block);
  const std::string what = "gradients of " + model_.model().blocks[block].name;
  const Group& group = group_of(instruction);
  const bool first = !accumulated_[block];
  accumulated_[block] = true;
  model_.clear_gradients(block);
  if (first) {
    std::vector<Work> calls = {group.reduce_scatter(flat.owned_gradients, flat.gradients, ReduceOp::sum, what)};
    for (const UseSum& use : flat.uses) calls.push_back(group.reduce_scatter(use.owned, use.gradients, ReduceOp::sum, what));
    return calls.size() == 1 ? std::move(calls.front()) : Work(std::make_shared<Calls>(std::move(calls)));
  }
  at::Tensor part = at::empty_like(flat.owned_gradients);
  Work call = group.reduce_scatter(part, flat.gradients, ReduceOp::sum, what);
  return Work(std::make_shared<Joining>(std::move(call), std::move(part), flat.owned_gradients));
}

Work StepRun::reduce(const Instruction& instruction) {
  if (sums_partial(instruction)) return reduce_partial(instruction);
  const Model& model = model_.model();
  const int first = instruction.first, last = instruction.last;
  const std::string what = last - first == 1
                               ? fmt::format("gradients of {}", model.blocks[first].name)
                               : fmt::format("gradients of {} to {}", model.blocks[first].name, model.blocks[last - 1].name);
  const Group& group = group_of(instruction);
  if (tied_block(instruction) >= 0) return reduce_tied(first, group, what);
  if (program_->shard_level == ShardLevel::none) return group.all_reduce(model_.gradients(first, last), ReduceOp::sum, what);
  std::vector<Work> calls = {group.all_reduce(model_.flat(first).owned_gradients, ReduceOp::sum, what)};
  for (const UseSum& use : model_.flat(first).uses) calls.push_back(group.all_reduce(use.owned, ReduceOp::sum, what));
  return calls.size() == 1 ? std::move(calls.front()) : Work(std::make_shared<Calls>(std::move(calls)));
}

/// Of this rank's part of the blocks: the same elements on all ranks of tp, which have run the same forwards.
Work StepRun::reduce_partial(const Instruction& instruction) {
  Tensors places;
  for (int block = instruction.first; block < instruction.last; ++block) {
    if (!model_.owns(block)) continue;
    FlatBlock& flat = model_.flat(block);
    std::vector<GroupRange> runs;
    for (const int index : flat.params) {
      const Param& param = model_.params()[index];
      if (!is_trained(param.group) || !param.parameter->partial) continue;
      const GroupRange own = flat.own({.begin = param.offset, .end = param.offset + param.numel});
      if (own.begin == own.end) continue;
      const bool goes_on = !runs.empty() && runs.back().end == own.begin;
      goes_on ? runs.back().end = own.end : (runs.push_back(own), 0);
    }
    for (const GroupRange& run : runs) {
      places.push_back(flat.owned_gradients.narrow(0, run.begin, run.end - run.begin));
      for (const UseSum& use : flat.uses) places.push_back(use.owned.narrow(0, run.begin, run.end - run.begin));
    }
  }
  if (places.empty()) return {};
  const MemoryScope scope(MemoryCategory::activations);
  const at::Tensor joined = at::cat(places);
  Work call = group_of(instruction).all_reduce(joined, ReduceOp::sum, "gradients of parameters that are not split");
  return Work(std::make_shared<Partial>(std::move(call), joined, std::move(places)));
}

Work StepRun::reduce_tied(int block, const Group& group, const std::string& what) {
  FlatBlock& flat = model_.flat(block);
  const int num_rows = tied_rows(*program_, block);
  if (num_rows == 1) {
    join_uses(block);
    return group.all_reduce(flat.owned_gradients, ReduceOp::sum, what);
  }
  c10::NoGradGuard no_grad;
  uses_joined_[block] = true;
  const at::Tensor rows = at::zeros({num_rows, flat.num_owned()}, flat.owned_gradients.options());
  const std::vector<int> users = users_of(*program_, block);
  const auto row_of = [&](int user) { return rows.select(0, std::find(users.begin(), users.end(), user) - users.begin()); };
  row_of(flat.first_user).copy_(flat.owned_gradients);
  for (const UseSum& use : flat.uses) row_of(use.user).copy_(use.owned);
  Work call = group.all_reduce(rows.view({-1}), ReduceOp::sum, what);
  return Work(std::make_shared<Rows>(std::move(call), rows, flat.owned_gradients));
}

/// Adds up the separate sums of a weight's uses, if any. Only the first call of a step has an effect.
void StepRun::join_uses(int block) {
  if (uses_joined_[block] || !model_.owns(block)) return;
  uses_joined_[block] = true;
  model_.join_uses(block);
}

}  // namespace weft
