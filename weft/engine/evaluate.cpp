// Engine's evaluation and prediction: forward only, over a set divided among ranks.
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/engine/engine.h"
#include "weft/engine/evaluation_sum.h"
#include "weft/engine/keyed_calls.h"
#include "weft/engine/rank_tokens.h"
#include "weft/engine/step_run.h"
#include "weft/engine/whole_outputs.h"
#include "weft/nn/graph.h"
#include "weft/program/axes.h"

namespace weft {
namespace {

const Group& everyone(const Program& program, const EngineOptions& options) { return options.groups.along(loss_axes(program)); }

/// Context of micro-batch `place` of the set, without recompute (no backward) and in one piece (no sums over samples).
Context evaluation_context(const EngineOptions& options, const EvaluationPart& part, int64_t place) {
  BlockLayout layout = options.blocks;
  layout.recompute_parts = false;
  layout.batch_pieces = 1;
  return {.seed = options.seed,
          .step = part.steps_done,
          .first_sample = part.samples_before + place * part.micro_batch,
          .training = false,
          .tp = options.groups.along(kTensorAxis),
          .cp = options.groups.along(kContextAxis),
          .layout = layout};
}

// Ranks that evaluate independently synchronise at about this interval, so that a stopped rank is noticed before the end, and
// their hosts wait for their devices, which bounds what they have been given.
class LivenessCheck {
 public:
  LivenessCheck(const Group& group, at::Device device) : group_(group), device_(device) {}

  /// Called on every rank after each micro-batch. Returns whether ranks synchronise now: the caller waits for the device, then
  /// calls meet().
  bool is_due() { return ++done_ >= interval_; }
  /// The slowest rank's time, its device's included, sets the number of micro-batches until the next time.
  void meet() {
    double seconds = std::chrono::duration<double>(Clock::now() - start_).count() / static_cast<double>(done_);
    if (group_.size() > 1) {
      const at::Tensor slowest = at::tensor({seconds}, at::TensorOptions(at::kDouble)).to(device_);
      group_.all_reduce(slowest, ReduceOp::max, "evaluation liveness").wait();
      seconds = slowest.item<double>();
    }
    const double fitting = std::min(kSecondsBetween / seconds, 4.0 * static_cast<double>(interval_));
    interval_ = std::clamp<int64_t>(static_cast<int64_t>(fitting), 1, kMostBetween);
    done_ = 0;
    start_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double kSecondsBetween = 0.5;
  static constexpr int64_t kMostBetween = 4'096;

  const Group& group_;
  at::Device device_;
  Clock::time_point start_ = Clock::now();
  int64_t done_ = 0;
  int64_t interval_ = 1;
};

}  // namespace

void Engine::gather_for(int block) {
  if (program_->shard_level != ShardLevel::parameters) return;
  std::vector<int> needed = program_->block_uses[block];
  needed.push_back(block);
  for (int b : needed) {
    const bool away = run_->weights.away(b);
    if (away) run_->weights.reload(b).wait();
    run_->weights.gather(b).wait();
    if (away) run_->weights.offload(b);
  }
}

Tensors Engine::forward(int block, const Tensors& inputs, const Context& context) {
  options_.current->set_forward(block);
  model_.statistics(block);  // brings deferred statistics up to date
  return run_->calls.forward(block, inputs, context);
}

/// Runs forward through all pipeline stages. Returns the outputs of this rank's last block; empty if they were sent on.
Tensors Engine::forward_all(const MicroBatch& batch, bool mine, const Context& context) {
  if (mine && stage_ranks_.front() == pp_rank_ && batch.inputs.empty())
    throw InputError("evaluation: a micro-batch has no inputs");
  Tensors x = batch.inputs;
  for (at::Tensor& input : x) {
    if (input.is_floating_point()) input = input.to(model_.options().weight_dtype);
  }
  std::vector<Work> sends;
  run_->forward_transfers.begin();
  for (int b = 0; b < model_.num_blocks(); ++b) {
    if (stage_ranks_[b] != pp_rank_) continue;
    gather_for(b);
    if (!mine) continue;
    const std::string& name = model_.model().blocks[b].name;
    if (b > 0 && stage_ranks_[b - 1] != pp_rank_) {
      run_->forward_transfers.receive_activation(stage_ranks_[b - 1], b - 1, x, "evaluation output before " + name).wait();
    }
    Context own = context;
    if (b + 1 < model_.num_blocks()) own.target.reset();
    x = forward(b, x, own);
    if (b + 1 < model_.num_blocks() && stage_ranks_[b + 1] != pp_rank_) {
      const std::string what = "evaluation output before " + model_.model().blocks[b + 1].name;
      sends.push_back(run_->forward_transfers.send_activation(stage_ranks_[b + 1], b, x, what));
    }
  }
  for (Work& send : sends) send.wait();
  return x;
}

/// Ranks without micro-batches left still gather weights for the others and still join the liveness checks.
int64_t Engine::most_to_evaluate(int64_t mine) const {
  const at::Tensor count = at::tensor({mine}, at::TensorOptions(at::kLong)).to(device());
  everyone(*program_, options_).all_reduce(count, ReduceOp::max, "micro-batches to evaluate").wait();
  return count.item<int64_t>();
}

/// Result of a micro-batch, or a placeholder on a rank that has none left.
struct Engine::Forwarded {
  int64_t place = 0;       ///< in the set
  bool mine = false;       ///< true if this rank has it
  int64_t samples = 0;     ///< its samples, on first and last stages
  Tensors outputs = {};    ///< of the last block, on its rank
  at::Tensor target = {};  ///< on the same rank
  Context context = {};
};

/// Calls `done` the same number of times on all ranks: as often as the rank with the most micro-batches needs. `read` waits for
/// the device, from time to time. `for_losses`: a last block that can make the losses does.
void Engine::forward_part(const EvaluationPart& part, const NextMicroBatch& next, bool for_losses,
                          c10::function_ref<void(Forwarded&)> done, c10::function_ref<void()> read) {
  c10::NoGradGuard no_grad;
  run_->put_away();
  const bool is_first = stage_ranks_.front() == pp_rank_, is_last = stage_ranks_.back() == pp_rank_;
  const int64_t most = most_to_evaluate(part.count);
  LivenessCheck check(everyone(*program_, options_), device());
  for (int64_t i = 0; i < most; ++i) {
    Forwarded forwarded{.place = part.first + i, .mine = i < part.count};
    forwarded.context = evaluation_context(options_, part, forwarded.place);
    MicroBatch batch;
    if (forwarded.mine && (is_first || is_last)) batch = own_tokens(next(), options_.groups.along(kContextAxis));
    if (!batch.inputs.empty()) forwarded.samples = batch.inputs.front().size(0);
    if (!is_first) batch.inputs.clear();
    if (for_losses && options_.blocks.loss_chunk > 0) forwarded.context.target = batch.target;
    Tensors outputs = forward_all(batch, forwarded.mine, forwarded.context);
    if (forwarded.mine && is_last) forwarded.outputs = std::move(outputs);
    forwarded.target = batch.target;
    done(forwarded);
    if (!check.is_due()) continue;
    read();
    check.meet();
  }
  options_.current->leave();
}

void Engine::add_loss(const Forwarded& forwarded, EvaluationSum& sum) const {
  if (!forwarded.mine || stage_ranks_.back() != pp_rank_) return;
  const Model& model = model_.model();
  const at::Tensor& target = forwarded.target;
  const auto outputs = [&](const auto& function) {
    return function.takes_any_type() ? forwarded.outputs : widen(forwarded.outputs);
  };
  const Context& context = forwarded.context;
  const Loss& measure = model.evaluation_loss ? model.evaluation_loss : model.loss;
  try {
    const LossValue loss = run_->calls.loss(measure, outputs(measure), target, context, context);
    keyed_loss_call(model_, context, " hits", [&] {
      const auto count = [&](const Hits& hits) { return hits ? hits(outputs(hits), target, context) : LossCount(); };
      sum.add(forwarded.place, loss, count(model.hits), count(model.top5));
    });
  } catch (const InputError& error) {
    throw InputError(fmt::format("evaluation, micro-batch {}: {}", forwarded.place, error.what()));
  }
}

EvaluationResult Engine::evaluate(const EvaluationPart& part, const NextMicroBatch& next) {
  EvaluationSum sum;
  const auto read = [&] { sum.read(run_->calls.ids); };
  forward_part(
      part, next, /*for_losses=*/true, [&](const Forwarded& forwarded) { add_loss(forwarded, sum); }, read);
  read();
  return sum.total(everyone(*program_, options_), device(), part.steps_done);
}

namespace {

/// Broadcasts the tensors of rank `root` of `group` over its transfers.
void broadcast_tensors(Tensors& tensors, int root, const Group& group, Transfers& transfers) {
  if (group.size() == 1) return;
  const std::string what = "predictions";
  transfers.begin();
  if (group.rank() != root) {
    transfers.receive_batch(root, tensors, what).wait();
    return;
  }
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer != root) transfers.send_batch(peer, tensors, what).wait();
  }
}

}  // namespace

void Engine::predict(const EvaluationPart& part, const NextMicroBatch& next, bool gathered, const VisitOutputs& visit) {
  const Group &pipeline = options_.groups.along(kPipelineAxis), &data = options_.groups.along(kDataAxes);
  Transfers between_data_ranks(data, device());
  forward_part(
      part, next, /*for_losses=*/false,
      [&](Forwarded& forwarded) {
        Tensors outputs = widen(std::exchange(forwarded.outputs, {}));
        run_->calls.ids.read();
        if (forwarded.mine) {
          if (stage_ranks_.back() == pp_rank_)
            outputs = whole_outputs(model_, std::move(outputs), forwarded.samples, forwarded.context);
          broadcast_tensors(outputs, stage_ranks_.back(), pipeline, run_->forward_transfers);
        }
        const int64_t first_sample = forwarded.context.first_sample;
        if (!gathered || data.size() == 1) {
          if (forwarded.mine) visit(first_sample, outputs);
          return;
        }
        if (forwarded.mine) outputs.push_back(at::tensor({first_sample}, at::kLong).to(device()));
        for (int rank = 0; rank < data.size(); ++rank) {
          Tensors theirs = rank == data.rank() ? outputs : Tensors();
          broadcast_tensors(theirs, rank, data, between_data_ranks);
          if (theirs.empty()) continue;  // no micro-batches left
          const int64_t first = theirs.back().item<int64_t>();
          theirs.pop_back();
          visit(first, theirs);
        }
      },
      [&] { run_->calls.ids.read(); });
}

}  // namespace weft
