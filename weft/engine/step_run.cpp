#include "weft/engine/step_run.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "weft/engine/memory_ledger.h"
#include "weft/program/stage_ranks.h"

namespace weft {

namespace {

/// Memory category of an instruction.
MemoryCategory category_of(const Instruction& x) {
  switch (x.op) {
    case Op::gather:
      return MemoryCategory::communication;
    case Op::combine:
    case Op::reduce_scatter:
    case Op::reduce:
      return MemoryCategory::gradients;
    case Op::norm:
    case Op::gather_gradients:
    case Op::update:
      return MemoryCategory::optimizer;
    case Op::send:
    case Op::receive:
      if (x.what == Payload::weights) return MemoryCategory::communication;
      return x.what == Payload::sum ? MemoryCategory::gradients : MemoryCategory::activations;
    case Op::offload:
    case Op::reload:
      if (x.what == Payload::optimizer) return MemoryCategory::optimizer;
      return x.what == Payload::weights ? MemoryCategory::weights : MemoryCategory::activations;
    default:
      return MemoryCategory::activations;
  }
}

}  // namespace

StepRun::StepRun(FlatModel& model, const Program& program, Updater& updater, const EngineOptions& options)
    : calls(model),
      weights(model, program, options),
      transfers(options.groups.along(kPipelineAxis), model.options().device, program.flagged > 0),
      clock(model.options().device),
      model_(model),
      program_(&program),
      updater_(updater),
      options_(options),
      stage_ranks_(stage_rank_of_block(program)),
      in_flight_(program.micro_batches),
      accumulated_(program.num_blocks(), false) {
  if (!options.offload.optimizer) return;
  optimizer_buffers_.resize(program.num_blocks());
  for (int b = 0; b < program.num_blocks(); ++b) {
    if (!model.holds(b)) continue;
    for (const int64_t numel : updater_.state_numels(b)) {
      const int64_t bytes = numel * static_cast<int64_t>(sizeof(float));
      optimizer_buffers_[b].push_back(bytes > 0 ? options.offload.optimizer->reserve(bytes) : -1);
    }
  }
}

void StepRun::change(const Program& program) {
  program_ = &program;
  in_flight_ = std::vector<InFlight>(program.micro_batches);
}

void StepRun::begin(int64_t step, const InstructionList& list, const NextMicroBatch& next) {
  step_ = step;
  works_.clear();
  clock.begin();
  result_ = {};
  loss_summed_ = loss_settled_ = false;
  squares_ = {};
  loaded_ = 0;
  if (program_->flagged > 0) {
    for (const int param : model_.flagged()) model_.used()[param] = 0;
  }
  losses_ = at::zeros({3, options_.all_micro_batches * options_.blocks.batch_pieces}, at::TensorOptions(at::kDouble));
  transfers.begin();
  calls.ids.clear();
  const auto blocks = static_cast<size_t>(model_.num_blocks());
  for (InFlight& flight : in_flight_) {
    flight = {};
    flight.inputs.resize(blocks);
    flight.outputs.resize(blocks);
    flight.ends.resize(blocks);
    flight.statistics.resize(blocks);
    flight.gradients.resize(blocks);
  }
  for (int b = 0; b < model_.num_blocks(); ++b) {
    if (model_.holds(b)) model_.clear_gradients(b);
  }
  accumulated_.assign(accumulated_.size(), false);
  uses_joined_.assign(accumulated_.size(), false);
  first_batch_.reset();
  const auto is_loss = [](const Instruction& x) { return x.op == Op::loss; };
  if (nominal_targets_ == 0 && std::any_of(list.begin(), list.end(), is_loss)) agree_on_targets(next);
}

void StepRun::execute(const Instruction& instruction, int index, const NextMicroBatch& next) {
  for (int earlier : instruction.waits) {
    if (earlier >= static_cast<int>(works_.size()) || works_[earlier].empty()) continue;
    works_[earlier].wait();
    works_[earlier] = {};
    clock.waited(earlier);
  }
  works_.resize(index + 1);
  const MemoryScope scope(category_of(instruction));
  clock.start(index);
  works_[index] = start(instruction, next);
  clock.end(index);
}

void StepRun::finish() {
  for (size_t i = 0; i < works_.size(); ++i) {
    if (works_[i].empty()) continue;
    works_[i].wait();
    clock.waited(static_cast<int>(i));
  }
  if (loss_summed_) settle_loss();
}

Work StepRun::start(const Instruction& instruction, const NextMicroBatch& next) {
  switch (instruction.op) {
    case Op::load:
      load(instruction.micro, next);
      return {};
    case Op::gather:
      return instruction.axes == kInnerAxis ? weights.gather_inner(instruction.first) : weights.gather(instruction.first);
    case Op::release:  // its buffer is free for the next gather
      if (instruction.keeps_inner_shard) weights.keep_inner_shard(instruction.first);
      return {};
    case Op::forward:
      forward(instruction.first, instruction.micro);
      return {};
    case Op::drop:
      drop(instruction.first, instruction.micro);
      return {};
    case Op::offload:
      offload(instruction);
      return {};
    case Op::reload:
      reload(instruction);
      return {};
    case Op::loss:
      loss(instruction.micro);
      return {};
    case Op::backward:
      backward(instruction.first, instruction.micro);
      return {};
    case Op::backward_input:
      backward_input(instruction.first, instruction.micro);
      return {};
    case Op::backward_weight:
      backward_weight(instruction.first, instruction.micro);
      return {};
    case Op::send:
      return send(instruction);
    case Op::receive:
      return receive(instruction);
    case Op::combine:
      combine(instruction);
      return {};
    case Op::reduce_scatter:
      return reduce_scatter(instruction);
    case Op::reduce:
      return reduce(instruction);
    case Op::squares:
      updater_.add_block_squares(instruction.first, squares_);
      return {};
    case Op::reduce_loss:
      return reduce_loss(instruction);
    case Op::norm:
      norm(instruction);
      return {};
    case Op::gather_gradients:
      return gather_gradients(instruction);
    case Op::update:
      update(instruction);
      return {};
  }
  return {};
}

const Group& StepRun::group_of(const Instruction& x) const {
  const int tied = tied_block(x);
  const AxisGroups& groups = options_.groups;
  if (x.op == Op::reduce || x.op == Op::reduce_scatter) {
    return tied < 0 ? groups.gradients_along(x.axes) : groups.tied_gradients(tied);
  }
  return tied < 0 ? groups.along(x.axes) : groups.tied(tied);
}

/// Both tensors outlive the collective: the updater keeps the whole until the update, which waits for it.
Work StepRun::gather_gradients(const Instruction& instruction) {
  settle_loss();
  if (result_.skipped) return {};
  const int block = instruction.first;
  join_uses(block);
  const at::Tensor part = updater_.part_of_gradients(block, divisor_);
  const at::Tensor whole = at::empty({model_.flat(block).numel}, part.options());
  updater_.take_gradients(block, whole);
  return group_of(instruction).all_gather(whole, part, "gradients of " + model_.model().blocks[block].name + " for its update");
}

void StepRun::update(const Instruction& instruction) {
  settle_loss();
  for (int block = instruction.first; block < instruction.last && !result_.skipped; ++block) update_block(block);
}

void StepRun::update_block(int block) {
  join_uses(block);
  updater_.update(block, divisor_);
  weights.mark_changed(block);
  const GroupRange statistics = model_.statistics_range(block);
  if (statistics.begin < statistics.end) {
    model_.apply_statistics(block, options_.all_micro_batches);
    model_.copy_master_to_shard(block);
  }
  updater_.average(block);
}

}  // namespace weft
