#include "weft/engine/engine.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/engine/memory_ledger.h"
#include "weft/engine/step_run.h"
#include "weft/program/check_program.h"
#include "weft/program/stage_ranks.h"

namespace weft {

namespace {

// A hand-written program may belong to another model.
const Program& checked(const Program& program, int rank, const FlatModel& model) {
  check_program(program);
  check_rank(program, rank);
  const auto is_held = [](const std::vector<int>& holders) { return !holders.empty(); };
  if (!std::all_of(program.holders.begin(), program.holders.end(), is_held)) {
    throw InputError("engine: the program has a block that no pipeline rank holds");
  }
  if (program.num_blocks() == model.num_blocks()) return program;
  throw InputError(fmt::format("engine: the program has {} blocks, model '{}' has {}", program.num_blocks(), model.model().name,
                               model.num_blocks()));
}

}  // namespace

Engine::Engine(FlatModel& model, const Program& program, int rank, Updater& updater, const EngineOptions& options)
    : model_(model),
      program_(&checked(program, rank, model)),
      rank_(rank),
      options_(options),
      stage_ranks_(stage_rank_of_block(program)),
      pp_rank_(options.groups.along(kPipelineAxis).rank()),
      run_(std::make_unique<StepRun>(model, program, updater, options_)) {}

Engine::~Engine() = default;

void Engine::change(const Program& program, const BatchShare& share) {
  program_ = &checked(program, rank_, model_);
  options_.first_micro_batch = share.first_micro_batch;
  options_.all_micro_batches = share.all_micro_batches;
  options_.first_step = share.first_step;
  options_.first_sample = share.first_sample;
  run_->change(program);
}

void Engine::initialise() {
  for (int b = 0; b < model_.num_blocks(); ++b) {
    if (!model_.holds(b)) continue;
    model_.initialise(b, options_.seed);
    if (run_->weights.is_offloaded()) run_->weights.offload(b);
  }
  gather_whole();
}

void Engine::gather_whole() {
  const bool keeps_whole = program_->shard_level != ShardLevel::parameters;
  for (int b = 0; b < model_.num_blocks() && keeps_whole; ++b) {
    if (model_.owns(b)) run_->weights.gather_all(b).wait();
  }
}

void Engine::with_state(int block, const VisitState& visit, bool changes) {
  const bool away = run_->weights.away(block);
  if (away) run_->weights.reload(block);
  {
    const MemoryScope scope(MemoryCategory::optimizer);
    run_->reload_optimizer(block);
  }
  // Runs even if the visit throws: the next step expects the state to be offloaded.
  const auto put_away = [&] {
    if (changes) run_->weights.mark_all_changed(block);
    if (run_->offloads_optimizer()) run_->offload_optimizer(block, changes);
    if (away) run_->weights.offload(block);
  };
  try {
    visit(block, run_->optimizer_state(block));
    if (changes) {
      for (FlatPart* part : model_.flat(block).parts()) FlatModel::copy_master_to_shard(*part);
    }
  } catch (...) {
    put_away();
    throw;
  }
  put_away();
}

void Engine::for_each_state(const VisitState& visit) {
  for (int b = 0; b < model_.num_blocks(); ++b) {
    if (model_.holds(b)) with_state(b, visit, /*changes=*/false);
  }
}

void Engine::fill_state(const VisitState& visit) {
  for (int b = 0; b < model_.num_blocks(); ++b) {
    if (model_.holds(b)) with_state(b, visit, /*changes=*/true);
  }
}

int64_t Engine::nominal_targets() const { return run_->nominal_targets(); }
void Engine::set_nominal_targets(int64_t targets) { run_->set_nominal_targets(targets); }

at::Tensor Engine::master_weights(int block) {
  const MemoryScope scope(MemoryCategory::gathered);
  FlatBlock& flat = model_.flat(block);
  const std::string what = "weights of " + model_.model().blocks[block].name;
  at::Tensor whole = at::zeros({flat.whole_numel + flat.frozen.whole_numel}, at::TensorOptions(at::kFloat).device(device()));
  if (model_.owns(block)) {
    const bool away = run_->weights.away(block);
    if (away) run_->weights.reload(block);
    for (const FlatPart* part : flat.parts()) {
      options_.groups.along(kShardAxis).all_gather(whole.narrow(0, part->begin, part->numel), part->master, what).wait();
    }
    if (away) run_->weights.offload(block);
  }
  const int holder = program_->holders.empty() ? 0 : program_->holders[block].front();
  options_.groups.along(kPipelineAxis).broadcast(whole, holder, what).wait();
  const Group& tp = options_.groups.along(kTensorAxis);
  if (tp.size() == 1) return whole.unsqueeze(0);
  const at::Tensor parts = at::empty({tp.size(), whole.numel()}, whole.options());
  tp.all_gather(parts, whole, what).wait();
  return parts;
}

at::Tensor Engine::buffer_values(const ModelBuffer& buffer) {
  const Group& pipeline = options_.groups.along(kPipelineAxis);
  at::Tensor values = model_.holds(buffer.block) ? values_of(buffer) : at::empty(buffer.shape, buffer.value.options());
  if (pipeline.size() == 1 || values.numel() == 0) return values;
  const int holder = program_->holders.empty() ? 0 : program_->holders[buffer.block].front();
  pipeline.broadcast(as_bytes(values), holder, "buffer " + buffer.name).wait();
  return values;
}

void Engine::trace(bool on) { run_->clock.turn(on); }
const std::vector<InstructionTime>& Engine::times() const { return run_->clock.times(); }

StepResult Engine::step(int64_t step, const NextMicroBatch& next) {
  const InstructionList& list = program_->of(rank_);
  run_->begin(step, list, next);
  for (size_t i = 0; i < list.size(); ++i) run_->execute(list[i], static_cast<int>(i), next);
  run_->finish();
  return run_->result();
}

at::Device Engine::device() const { return model_.options().device; }

}  // namespace weft
