#include "weft/engine/engine.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "weft/base/error.h"
#include "weft/engine/memory_ledger.h"
#include "weft/engine/run.h"
#include "weft/nn/graph.h"
#include "weft/program/check_program.h"

namespace weft {

namespace {

// A program that somebody wrote by hand may be of another model.
const Program& checked(const Program& program, int rank, const FlatModel& model) {
  check_program(program);
  check_rank(program, rank);
  const auto is_held = [](const std::vector<int>& holders) { return !holders.empty(); };
  if (!std::all_of(program.holders.begin(), program.holders.end(), is_held)) {
    throw InputError("engine: the program has a block that no pipeline rank holds");
  }
  if (program.num_blocks() == model.num_blocks()) return program;
  throw InputError(fmt::format("engine: the program is of {} blocks, model '{}' has {}", program.num_blocks(),
                               model.model().name, model.num_blocks()));
}

const Group& everyone(const Program& program, const EngineOptions& options) {
  return program.mesh.pp > 1 ? options.world : options.data;
}

// Ranks that evaluate apart would learn only at the end that one of them has stopped: so they meet, about so often.
class Meetings {
 public:
  Meetings(const Group& group, at::Device device) : group_(group), device_(device) {}

  /// On every rank. How many micro-batches are done between two meetings follows from the slowest rank's time.
  void micro_batch_done() {
    if (group_.size() == 1 || ++done_ < interval_) return;
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count() / static_cast<double>(done_);
    const at::Tensor slowest = at::tensor({seconds}, at::TensorOptions(at::kDouble)).to(device_);
    group_.all_reduce(slowest, ReduceOp::max, "evaluation goes on").wait();
    const double fitting = std::min(kSecondsBetween / slowest.item<double>(), 4.0 * static_cast<double>(interval_));
    interval_ = std::max<int64_t>(1, static_cast<int64_t>(fitting));
    done_ = 0;
    start_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double kSecondsBetween = 0.5;

  const Group& group_;
  at::Device device_;
  Clock::time_point start_ = Clock::now();
  int64_t done_ = 0;
  int64_t interval_ = 1;
};

/// Of the table of an evaluation, which is the same on all ranks.
EvaluationResult total(const at::Tensor& table, int64_t steps_done) {
  const auto entry = table.accessor<double, 2>();
  double sum = 0.0, count = 0.0, hits = 0.0;
  for (int64_t j = 0; j < table.size(1); ++j) {
    if (!std::isfinite(entry[0][j])) {
      throw NumericError(
          fmt::format("evaluation after step {}: the loss of micro-batch {} is {}; lower the learning rate, clip, or check the "
                      "data",
                      steps_done, j, entry[0][j]));
    }
    sum += entry[0][j];
    count += entry[1][j];
    hits += entry[2][j];
  }
  if (count == 0.0) {
    throw InputError(
        fmt::format("evaluation after step {}: no target counted in the whole evaluation set; check the data", steps_done));
  }
  return {sum / count, static_cast<int64_t>(count), static_cast<int64_t>(hits)};
}

}  // namespace

Engine::Engine(FlatModel& model, const Program& program, int rank, Updater& updater, const EngineOptions& options)
    : model_(model),
      program_(checked(program, rank, model)),
      rank_(rank),
      options_(options),
      runner_(runners(program)),
      place_(options.pipeline.rank()),
      run_(std::make_unique<Run>(model, program, updater, options_)) {}

Engine::~Engine() = default;

void Engine::initialise() {
  for (int b = 0; b < model_.num_blocks(); ++b) {
    if (!model_.holds(b)) continue;
    model_.initialise(b, options_.seed);
    if (run_->weights.has_tier()) run_->weights.evict(b);
  }
  const bool keeps_whole = program_.shard_level != ShardLevel::parameters;
  for (int b = 0; b < model_.num_blocks() && keeps_whole; ++b) {
    if (model_.holds(b)) run_->weights.gather_all(b).wait();
  }
}

at::Tensor Engine::master_weights(int block) {
  const MemoryScope scope(Category::gathered);
  FlatBlock& flat = model_.flat(block);
  const std::string what = "weights of " + model_.model().blocks[block].name;
  at::Tensor whole = at::zeros({flat.whole_numel + flat.frozen.whole_numel}, at::TensorOptions(at::kFloat).device(device()));
  if (model_.holds(block)) {
    const bool away = run_->weights.away(block);
    if (away) run_->weights.fetch(block);
    for (const FlatPart* part : flat.parts()) {
      options_.shards.all_gather(whole.narrow(0, part->begin, part->numel), part->master, what).wait();
    }
    if (away) run_->weights.evict(block);
  }
  const int holder = program_.holders.empty() ? 0 : program_.holders[block].front();
  options_.pipeline.broadcast(whole, holder, what).wait();
  return whole;
}

void Engine::trace(bool on) { run_->clock.turn(on); }
const std::vector<InstructionTime>& Engine::times() const { return run_->clock.times(); }

StepResult Engine::step(int64_t step, const Next& next) {
  const InstructionList& list = program_.of(rank_);
  run_->begin(step, list, next);
  for (size_t i = 0; i < list.size(); ++i) run_->execute(list[i], static_cast<int>(i), next);
  run_->finish();
  return run_->result();
}

at::Device Engine::device() const { return model_.options().device; }

void Engine::gather_for(int block) {
  if (program_.shard_level != ShardLevel::parameters) return;
  std::vector<int> needed = program_.block_uses[block];
  needed.push_back(block);
  for (int b : needed) {
    const bool away = run_->weights.away(b);
    if (away) run_->weights.fetch(b);
    run_->weights.gather(b).wait();
    if (away) run_->weights.evict(b);
  }
}

Tensors Engine::forward(int block, const Tensors& inputs) {
  model_.statistics(block);  // brings those up to date that are kept apart
  return model_.block(block).forward(inputs, Context{.training = false});
}

/// Through the stages of all pipeline ranks; what this rank's last block hands on, empty when that is sent.
Tensors Engine::forward_all(const MicroBatch& batch, bool mine) {
  if (mine && runner_.front() == place_ && batch.inputs.empty()) throw InputError("evaluation: a micro-batch has no inputs");
  Tensors x = batch.inputs;
  for (at::Tensor& input : x) {
    if (input.is_floating_point()) input = input.to(model_.options().weight_dtype);
  }
  std::vector<Work> sends;
  run_->transfers.begin();
  for (int b = 0; b < model_.num_blocks(); ++b) {
    if (runner_[b] != place_) continue;
    gather_for(b);
    if (!mine) continue;
    const std::string& name = model_.model().blocks[b].name;
    if (b > 0 && runner_[b - 1] != place_) {
      run_->transfers.receive_activation(runner_[b - 1], b - 1, x, "evaluation output before " + name).wait();
    }
    x = forward(b, x);
    if (b + 1 < model_.num_blocks() && runner_[b + 1] != place_) {
      const std::string what = "evaluation output before " + model_.model().blocks[b + 1].name;
      sends.push_back(run_->transfers.send_activation(runner_[b + 1], b, x, what));
    }
  }
  for (Work& send : sends) send.wait();
  return x;
}

/// Ranks that have run out still gather weights for those that have not, and still meet them.
int64_t Engine::most_to_evaluate(int64_t mine) const {
  const at::Tensor count = at::tensor({mine}, at::TensorOptions(at::kLong)).to(device());
  everyone(program_, options_).all_reduce(count, ReduceOp::max, "micro-batches to evaluate").wait();
  return count.item<int64_t>();
}

/// `table` is [3, all micro-batches] float64 on the host: sums of losses, counts, hits.
void Engine::evaluate_one(int64_t place, const MicroBatch& batch, bool mine, const at::Tensor& table) {
  const Tensors outputs = widen(forward_all(batch, mine));
  if (!mine || runner_.back() != place_) return;
  const Model& model = model_.model();
  const LossValue loss = model.loss(outputs, batch.target);
  auto entry = table.accessor<double, 2>();
  entry[0][place] = loss.sum.item<double>();
  entry[1][place] = static_cast<double>(loss.count);
  if (model.hits) entry[2][place] = static_cast<double>(model.hits(outputs, batch.target));
}

/// As in a step, every micro-batch has a place of its own, so that the total is summed in one order.
EvaluationResult Engine::evaluate(const EvaluationPart& part, const Next& next) {
  c10::NoGradGuard no_grad;
  const bool is_first = runner_.front() == place_, is_last = runner_.back() == place_;
  at::Tensor table = at::zeros({3, part.all}, at::TensorOptions(at::kDouble));
  const int64_t most = most_to_evaluate(part.count);
  Meetings meetings(everyone(program_, options_), device());
  for (int64_t i = 0; i < most; ++i) {
    const bool mine = i < part.count;
    MicroBatch batch;
    if (mine && (is_first || is_last)) batch = next();
    if (!is_first) batch.inputs.clear();
    evaluate_one(part.first + i, batch, mine, table);
    meetings.micro_batch_done();
  }
  table = table.to(device());  // where the group's collectives run
  everyone(program_, options_).all_reduce(table, ReduceOp::sum, "evaluation loss").wait();
  return total(table.cpu(), part.steps_done);
}

}  // namespace weft
