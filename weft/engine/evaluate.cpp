// Engine's evaluation: forward only, of a set that is divided over ranks.
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/engine/engine.h"
#include "weft/engine/evaluation_sum.h"
#include "weft/engine/keyed_calls.h"
#include "weft/engine/own_tokens.h"
#include "weft/engine/run.h"
#include "weft/engine/unchanged.h"
#include "weft/nn/graph.h"
#include "weft/program/axes.h"

namespace weft {
namespace {

const Group& everyone(const Program& program, const EngineOptions& options) { return options.groups.along(loss_axes(program)); }

/// Of micro-batch `place` of the set.
Context evaluation_context(const EngineOptions& options, const EvaluationPart& part, int64_t place) {
  return {.seed = options.seed,
          .step = part.steps_done,
          .first_sample = place * part.micro_batch,
          .training = false,
          .tp = options.groups.along(kTensorAxis),
          .cp = options.groups.along(kContextAxis),
          .sequence_parallel = options.sequence_parallel,
          .tp_chunks = options.tp_chunks,
          .attention_over = options.attention_over};
}

// Ranks that evaluate apart would learn only at the end that one of them has stopped: so they meet, about so often.
class LivenessCheck {
 public:
  LivenessCheck(const Group& group, at::Device device) : group_(group), device_(device) {}

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

}  // namespace

void Engine::gather_for(int block) {
  if (program_->shard_level != ShardLevel::parameters) return;
  std::vector<int> needed = program_->block_uses[block];
  needed.push_back(block);
  for (int b : needed) {
    const bool away = run_->weights.away(b);
    if (away) run_->weights.reload(b);
    run_->weights.gather(b).wait();
    if (away) run_->weights.offload(b);
  }
}

Tensors Engine::forward(int block, const Tensors& inputs, const Context& context) {
  model_.statistics(block);  // brings those up to date that are kept apart
  const UnchangedParameters parameters(model_, block);
  Tensors outputs;
  keyed_call(model_, block, context, "", [&] { outputs = without_gaps(model_.block(block).forward(inputs, context)); });
  parameters.check();
  return outputs;
}

/// Through the stages of all pipeline ranks; what this rank's last block hands on, empty when that is sent.
Tensors Engine::forward_all(const MicroBatch& batch, bool mine, const Context& context) {
  if (mine && stage_ranks_.front() == pp_rank_ && batch.inputs.empty())
    throw InputError("evaluation: a micro-batch has no inputs");
  Tensors x = batch.inputs;
  for (at::Tensor& input : x) {
    if (input.is_floating_point()) input = input.to(model_.options().weight_dtype);
  }
  std::vector<Work> sends;
  run_->transfers.begin();
  for (int b = 0; b < model_.num_blocks(); ++b) {
    if (stage_ranks_[b] != pp_rank_) continue;
    gather_for(b);
    if (!mine) continue;
    const std::string& name = model_.model().blocks[b].name;
    if (b > 0 && stage_ranks_[b - 1] != pp_rank_) {
      run_->transfers.receive_activation(stage_ranks_[b - 1], b - 1, x, "evaluation output before " + name).wait();
    }
    x = forward(b, x, context);
    if (b + 1 < model_.num_blocks() && stage_ranks_[b + 1] != pp_rank_) {
      const std::string what = "evaluation output before " + model_.model().blocks[b + 1].name;
      sends.push_back(run_->transfers.send_activation(stage_ranks_[b + 1], b, x, what));
    }
  }
  for (Work& send : sends) send.wait();
  return x;
}

/// Ranks that have run out still gather weights for those that have not, and still meet them.
int64_t Engine::most_to_evaluate(int64_t mine) const {
  const at::Tensor count = at::tensor({mine}, at::TensorOptions(at::kLong)).to(device());
  everyone(*program_, options_).all_reduce(count, ReduceOp::max, "micro-batches to evaluate").wait();
  return count.item<int64_t>();
}

void Engine::evaluate_one(int64_t place, const MicroBatch& batch, bool mine, const Context& context, EvaluationSum& sum) {
  const Tensors outputs = widen(forward_all(batch, mine, context));
  if (!mine || stage_ranks_.back() != pp_rank_) return;
  const Model& model = model_.model();
  const Loss& told = model.evaluation_loss ? model.evaluation_loss : model.loss;
  keyed_loss_call(model_, context, "", [&] {
    const LossValue loss = told(outputs, batch.target, context);
    const auto count = [&](const Hits& hits) { return hits ? hits(outputs, batch.target, context) : 0; };
    sum.add(place,
            {.loss = loss.sum.item<double>(), .count = loss.count, .hits = count(model.hits), .top5 = count(model.top5)});
  });
}

EvaluationResult Engine::evaluate(const EvaluationPart& part, const NextMicroBatch& next) {
  c10::NoGradGuard no_grad;
  const bool is_first = stage_ranks_.front() == pp_rank_, is_last = stage_ranks_.back() == pp_rank_;
  EvaluationSum sum;
  const int64_t most = most_to_evaluate(part.count);
  LivenessCheck check(everyone(*program_, options_), device());
  for (int64_t i = 0; i < most; ++i) {
    const bool mine = i < part.count;
    MicroBatch batch;
    if (mine && (is_first || is_last)) batch = own_tokens(next(), options_.groups.along(kContextAxis));
    if (!is_first) batch.inputs.clear();
    const int64_t place = part.first + i;
    evaluate_one(place, batch, mine, evaluation_context(options_, part, place), sum);
    check.micro_batch_done();
  }
  return sum.total(everyone(*program_, options_), device(), part.steps_done);
}

}  // namespace weft
