#include "weft/engine/engine.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "weft/base/error.h"
#include "weft/engine/failed_step.h"
#include "weft/engine/finding.h"
#include "weft/engine/memory_ledger.h"
#include "weft/engine/operator_log.h"
#include "weft/engine/step_checks.h"
#include "weft/engine/step_graph.h"
#include "weft/engine/step_run.h"
#include "weft/nn/keyed_generators.h"
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

Engine::~Engine() {
  try {
    forget_graph();
  } catch (const std::exception&) {  // of the device, which a call before has reported
  }
}

void Engine::change(const Program& program, const BatchShare& share) {
  if (unread() > 0) throw InputError("engine: change() while a submitted step is not settled; call settle() first");
  program_ = &checked(program, rank_, model_);
  options_.first_micro_batch = share.first_micro_batch;
  options_.all_micro_batches = share.all_micro_batches;
  options_.first_step = share.first_step;
  options_.first_sample = share.first_sample;
  run_->change(program);
  forget_graph();
}

void Engine::initialise() {
  for (int b = 0; b < model_.num_blocks(); ++b) {
    if (!model_.holds(b)) continue;
    model_.initialise(b, options_.seed);
    if (run_->weights.is_offloaded()) run_->weights.offload(b);
    run_->weights.settle();
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
  if (away) run_->weights.reload(block).wait();
  {
    const MemoryScope scope(MemoryCategory::optimizer);
    run_->reload_optimizer(block).wait();
  }
  // Runs even if the visit throws: the next step expects the state to be offloaded.
  const auto put_away = [&] {
    if (changes) run_->weights.mark_all_changed(block);
    if (run_->offloads_optimizer()) run_->offload_optimizer(block, changes);
    if (away) run_->weights.offload(block);
  };
  try {
    std::optional<MemoryScope> scope;
    if (changes) scope.emplace(MemoryCategory::optimizer);  // a visit that fills the state makes its tensors
    visit(block, run_->optimizer_state(block));
    scope.reset();
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
  run_->put_away();
  for (int b = 0; b < model_.num_blocks(); ++b) {
    if (model_.holds(b)) with_state(b, visit, /*changes=*/false);
  }
}

void Engine::fill_state(const VisitState& visit) {
  forget_graph();  // its addresses may change
  run_->put_away();
  for (int b = 0; b < model_.num_blocks(); ++b) {
    if (model_.holds(b)) with_state(b, visit, /*changes=*/true);
  }
}

int64_t Engine::nominal_targets() const { return run_->nominal_targets(); }
void Engine::set_nominal_targets(int64_t targets) {
  forget_graph();
  run_->set_nominal_targets(targets);
}

at::Tensor Engine::master_weights(int block) {
  run_->put_away();
  const MemoryScope scope(MemoryCategory::gathered);
  FlatBlock& flat = model_.flat(block);
  const std::string what = "weights of " + model_.model().blocks[block].name;
  at::Tensor whole = at::zeros({flat.whole_numel + flat.frozen.whole_numel}, at::TensorOptions(at::kFloat).device(device()));
  if (model_.owns(block)) {
    const bool away = run_->weights.away(block);
    if (away) run_->weights.reload(block).wait();
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

namespace {

constexpr int kPreparingSteps = 2;  ///< the first agrees on targets and shapes; the second finds all memory allocated

std::vector<const void*> places_of_buffers(const FlatModel& model) {
  std::vector<const void*> places;
  for (const ModelBuffer& buffer : model.buffers()) places.push_back(buffer.value.const_data_ptr());
  return places;
}

}  // namespace

void Engine::use_graph() {
  graph_ = std::make_unique<StepGraph>(device(), options_.groups);
  check_graph();
  run_->transfers.send_from_device();
}

void Engine::check_graph() const {
  const auto refuse = [](const std::string& why) { throw InputError("run.graph: a step cannot be captured: " + why); };
  if (device().is_cpu() || !device_graphs(device().type()))
    refuse(fmt::format("{} has no graphs; leave run.graph out, or train on a GPU (run.device)", device().str()));
  if (model_.model().shapes_vary) refuse(fmt::format("the shapes of model '{}' change from step to step", model_.model().name));
  const OffloadStores& offload = options_.offload;
  if (offload.activations || offload.weights || offload.optimizer) refuse("it offloads to the host, which would wait");
  for (const Group& group : options_.groups.all()) {
    const std::string_view backend = group.backend();
    if (backend.find("shm") == backend.npos && backend.find("gloo") == backend.npos) continue;
    refuse(fmt::format("sums of group \"{}\" go through the host (layout.backend {})", group.name(), backend));
  }
  if (const std::string why = run_->why_not_captured(); !why.empty()) refuse(why);
  if (!first_draw_.empty()) {
    refuse(first_draw_ +
           " draws from LibTorch's generators, and would draw the same numbers in each step; draw by key (nn/random.h)");
  }
}

void Engine::forget_graph() {
  if (graph_) graph_->clear();
  prepared_ = 0;
}

/// Captures the step, or replays it. Returns whether it has.
bool Engine::submit_graph(int64_t step, const InstructionList& list, const NextMicroBatch& next) {
  if (!graph_ || run_->clock.is_on() || prepared_++ < kPreparingSteps) return false;
  options_.current->begin_step(step);
  const auto loads = std::count_if(list.begin(), list.end(), [](const Instruction& x) { return x.op == Op::load; });
  const bool again = graph_->is_captured();
  if (!again) check_graph();
  graph_->load(step, static_cast<int>(loads), next);
  if (!again) {
    const std::vector<const void*> before = places_of_buffers(model_);
    graph_->capture([&](const NextMicroBatch& kept) {
      run_->begin(step, list, kept);
      for (size_t i = 0; i < list.size(); ++i) run_->execute(list[i], static_cast<int>(i), kept);
      return run_->finish_captured();
    });
    const std::vector<const void*> after = places_of_buffers(model_);
    for (size_t i = 0; i < after.size(); ++i) {
      if (after[i] == before[i]) continue;
      forget_graph();
      throw InputError(fmt::format(
          "run.graph: a step cannot be captured: buffer '{}' is in other memory after each step; change it in place (copy_())",
          model_.buffers()[i].name));
    }
  }
  run_->add_replayed(step, graph_->replay(), again);
  return true;
}

void Engine::trace(bool on) { run_->clock.turn(on); }
const std::vector<InstructionTime>& Engine::times() const { return run_->clock.times(); }

void Engine::submit(int64_t step, const NextMicroBatch& next) {
  const InstructionList& list = program_->of(rank_);
  run_->place(step, list);
  std::optional<DrawWatch> watch;
  if (graph_) watch.emplace(first_draw_);
  if (submit_graph(step, list, next)) return;
  std::optional<OperatorWatch> operators;
  if (run_->checks && run_->checks->seen()) operators.emplace(run_->checks->seen());
  std::optional<OperatorLog> log;
  if (traces_operators_) log.emplace(device());
  run_->begin(step, list, next);
  for (size_t i = 0; i < list.size(); ++i) run_->execute(list[i], static_cast<int>(i), next);
  run_->finish();
  operators_ = log ? log->operators() : std::vector<MeasuredOperator>();
}

StepResult Engine::settle() {
  if (unsettled() == 0) throw InputError("engine: settle() without a submitted step; call submit() first");
  try {
    return run_->settle();
  } catch (const FailedStep&) {
    forget_graph();
    throw;
  }
}
int Engine::unsettled() const { return run_->results.count(); }
int Engine::unread() const { return run_->results.unread(); }

StepResult Engine::step(int64_t step, const NextMicroBatch& next) {
  if (unsettled() > 0) throw InputError("engine: step() while a submitted step is not settled; call settle() first");
  submit(step, next);
  return settle();
}

void Engine::check(bool watches_operators) {
  if (unsettled() > 0) throw InputError("engine: check() while a submitted step is not settled; call settle() first");
  forget_graph();
  graph_.reset();
  run_->repeat();
  run_->checks = std::make_unique<StepChecks>(model_, watches_operators);
}

const StepChecks* Engine::checks() const { return run_->checks.get(); }

void Engine::repeat(int64_t step, const NextMicroBatch& next) {
  check(/*watches_operators=*/true);
  const auto found = [this] {
    const std::optional<Finding>& finding = run_->checks->finding();
    return finding ? std::vector{*finding} : std::vector<Finding>();
  };
  try {
    this->step(step, next);
  } catch (const NumericError& error) {
    throw BadStep(step, error.what(), found());
  }
  throw BadStep(
      step,
      fmt::format("step {}: a loss or a gradient was wrong, but when the step was repeated on the same weights and samples "
                  "none was: look for an operator or a device whose results differ from run to run, or a memory fault",
                  step + 1),
      found());
}

at::Device Engine::device() const { return model_.options().device; }

}  // namespace weft
