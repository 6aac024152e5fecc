#include "weft/engine/step_run.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "weft/engine/failed_step.h"
#include "weft/engine/memory_ledger.h"
#include "weft/nn/device_kernels/step_numbers.h"
#include "weft/nn/exact_sums.h"
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

/// What this rank has spent in calls within blocks so far.
double inner_seconds(const AxisGroups& groups) {
  return groups.along(kTensorAxis).traffic().seconds + groups.along(kContextAxis).traffic().seconds;
}

bool has_op(const InstructionList& list, Op op) {
  return std::any_of(list.begin(), list.end(), [op](const Instruction& x) { return x.op == op; });
}

}  // namespace

StepRun::StepRun(FlatModel& model, const Program& program, Updater& updater, const EngineOptions& options)
    : calls(model),
      weights(model, program, options),
      transfers(options.groups.along(kPipelineAxis), model.options().device, program.flagged > 0),
      forward_transfers(options.groups.along(kPipelineAxis), model.options().device, /*marks_defined=*/false),
      clock(model.options().device),
      results(model.options().device),
      model_(model),
      program_(&program),
      updater_(updater),
      options_(options),
      stage_ranks_(stage_rank_of_block(program)),
      in_flight_(program.micro_batches),
      accumulated_(program.num_blocks(), false) {
  reads_late_ = on_device() && why_not_late().empty();
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
  reads_late_ = on_device() && why_not_late().empty() && !checks;
  transfers.begin();
  in_flight_ = std::vector<InFlight>(program.micro_batches);
}

void StepRun::place(int64_t step, const InstructionList& list) {
  if (!on_device()) return;
  step_ = step;
  const int votes = has_op(list, Op::reduce_loss) ? program_->votes : 0;
  const std::optional<LossScale> scale = updater_.scale_for_device();
  if (!values_.rate().defined()) values_ = StepValues(model_.options().device, program_->votes, scale.has_value());
  values_.set({.step = step,
               .first_sample = first_sample_of_step(),
               .rate = updater_.rate(),
               .votes = votes > 0 ? votes_of(options_.votes, votes, step) : std::vector<double>(),
               .scale = scale.value_or(LossScale()),
               .is_scale_known = results.unread() == 0});
}

void StepRun::begin(int64_t step, const InstructionList& list, const NextMicroBatch& next) {
  step_ = step;
  options_.current->begin_step(step);
  list_ = &list;
  updated_until_ = 0;
  works_.clear();
  put_away();
  clock.begin();
  result_ = {};
  loss_group_ = nullptr;
  loss_settled_ = false;
  numbers_.reset();
  refusal_.reset();
  loss_gradient_.reset();
  const at::TensorOptions options(model_.options().device);
  squares_ = program_->noise_scale ? exact_sums(1, model_.options().device) : at::Tensor();
  loaded_ = 0;
  if (program_->flagged > 0) {
    for (const int param : model_.flagged()) model_.used()[param] = 0;
  }
  losses_ = at::zeros({3, options_.all_micro_batches * options_.blocks.batch_pieces}, options.dtype(at::kDouble));
  transfers.begin_step(/*keeps_shapes=*/on_device() && !model_.model().shapes_vary);
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
  if (checks) checks->begin_step();
  if (nominal_targets_ == 0 && has_op(list, Op::loss)) agree_on_targets(next);
}

void StepRun::repeat() {
  for (Work& work : works_) work.wait();
  results.clear();
  transfers.begin();
  reads_late_ = false;
}

void StepRun::wait_for(const Instruction& instruction) {
  for (int earlier : instruction.waits) {
    if (earlier >= static_cast<int>(works_.size()) || works_[earlier].empty()) continue;
    works_[earlier].wait();
    works_[earlier] = {};
    clock.waited(earlier);
  }
}

void StepRun::execute(const Instruction& instruction, int index, const NextMicroBatch& next) {
  options_.current->set(instruction, index);
  wait_for(instruction);
  works_.resize(index + 1);
  const MemoryScope scope(category_of(instruction));
  const double inner_s = clock.is_on() ? inner_seconds(options_.groups) : 0.0;
  clock.start(index);
  works_[index] = start(instruction, index, next);
  if (clock.is_on()) clock.end(index, inner_seconds(options_.groups) - inner_s);
}

void StepRun::wait_for_all() {
  for (size_t i = 0; i < works_.size(); ++i) {
    if (works_[i].empty()) continue;
    works_[i].wait();
    clock.waited(static_cast<int>(i));
  }
}

void StepRun::finish() {
  wait_for_all();
  options_.current->leave();
  for (InFlight& flight : in_flight_) flight.batch.upload.reset();  // of micro-batches that others have run
  if (numbers_.defined()) {
    results.add(step_, numbers_, facts());
    return;
  }
  if (loss_group_ || (on_device() && has_op(*list_, Op::loss))) settle_loss();
  results.add(step_, result_);
}

StepResult StepRun::settle() {
  const int unread = results.unread();
  const bool is_judged = results.is_oldest_unread();
  try {
    StepResult result = results.take();
    // An abort ends what the device waits for, and leaves any numbers.
    if (unread > 0 && loss_group_) loss_group_->settle();
    if (is_judged) updater_.settle_update(result.skipped);
    return result;
  } catch (const FailedStep&) {
    updater_.forget_updates(unread);
    throw;
  }
}

Work StepRun::start(const Instruction& instruction, int index, const NextMicroBatch& next) {
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
      return reload(instruction);
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
      updater_.add_block_squares(instruction.first, squares_[0]);
      return {};
    case Op::reduce_loss:
      return reduce_loss(instruction);
    case Op::norm:
      norm(instruction);
      return {};
    case Op::gather_gradients:
      return gather_gradients(instruction);
    case Op::update:
      update(index);
      return {};
  }
  return {};
}

const Group& StepRun::group_of(const Instruction& x) const {
  const int tied = tied_block(x);
  const AxisGroups& groups = options_.groups;
  if ((x.op == Op::reduce && !sums_partial(x)) || x.op == Op::reduce_scatter) {
    return tied < 0 ? groups.gradients_along(x.axes) : groups.tied_gradients(tied);
  }
  return tied < 0 ? groups.along(x.axes) : groups.tied(tied);
}

}  // namespace weft
