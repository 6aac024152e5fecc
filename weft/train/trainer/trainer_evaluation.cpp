// The part of Trainer that evaluates and predicts.
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/program/axes.h"
#include "weft/train/trainer/rank_batch.h"
#include "weft/train/trainer/trainer.h"
#include "weft/train/trainer/trainer_state.h"

namespace weft {

namespace {

/// Number of samples in the batch, which all inputs must share.
int64_t samples_of(const Batch& batch) {
  if (batch.inputs.empty()) throw InputError("trainer: a batch to predict has no inputs");
  const at::Tensor& first = batch.inputs.front();
  const int64_t samples = first.defined() && first.dim() > 0 ? first.size(0) : 0;
  const std::string misfit = samples_misfit({.inputs = batch.inputs, .target = first}, samples);
  if (misfit.empty()) return samples;
  throw InputError(fmt::format("trainer: {} in a batch to predict, where input 0 has {}", misfit, samples));
}

/// Samples of lower ranks: the offset of this rank's samples.
int64_t samples_before(int64_t own, const Group& group, at::Device device) {
  at::Tensor counts = at::zeros({group.size()}, at::kLong);
  counts[group.rank()] = own;
  counts = counts.to(device);
  group.all_reduce(counts, ReduceOp::sum, "samples to predict").wait();
  return counts.cpu().narrow(0, 0, group.rank()).sum().item<int64_t>();
}

/// Outputs by the index of their first sample.
class Collected {
 public:
  void add(int64_t first_sample, const Tensors& outputs) {
    for (const at::Tensor& output : outputs) {
      if (output.dim() > 0) continue;
      throw InputError(
          "trainer: the last block outputs one number for all samples of a micro-batch, which predict() cannot join per "
          "sample; use for_each_prediction()");
    }
    parts_[first_sample] = outputs;
  }
  Tensors joined() const {
    Tensors result;
    for (size_t i = 0; !parts_.empty() && i < parts_.begin()->second.size(); ++i) {
      std::vector<at::Tensor> parts;
      parts.reserve(parts_.size());
      for (const auto& [first, outputs] : parts_) parts.push_back(outputs.at(i));
      result.push_back(at::cat(parts));
    }
    return result;
  }

 private:
  std::map<int64_t, Tensors> parts_;
};

/// This rank's share of the loader's set.
EvaluationPart part_of(const TrainerState& s, const EvaluationLoader& loader) {
  const EvaluationShare& share = loader.share();
  if (share.shard == s.data_rank && share.num_shards == s.data_ranks)
    return {.first = share.first, .count = share.count, .micro_batch = loader.micro_batch(), .steps_done = s.steps_done};
  throw InputError(
      fmt::format("trainer: the evaluation loader is for data-parallel rank {} of {}, this one is {} of {}; make it with the "
                  "index and size of mesh.join({{\"dp\", \"shard\"}})",
                  share.shard, share.num_shards, s.data_rank, s.data_ranks));
}

Batch next_of(EvaluationLoader& loader) {
  Batch batch;
  loader.next(batch);
  return batch;
}

/// Predicts the rank's part, on the CPU.
void predict_part(TrainerState& s, const EvaluationPart& part, const Trainer::Next& next, const PredictOptions& options,
                  const VisitOutputs& visit) {
  const at::Device device = s.options.communication.device;
  const auto next_micro = [&] { return to_device(next(), device); };
  s.engine->predict(part, next_micro, options.gathered, [&visit](int64_t first_sample, const Tensors& outputs) {
    Tensors here;
    for (const at::Tensor& output : outputs) here.push_back(output.cpu());
    visit(first_sample, here);
  });
}

/// Evaluates the rank's part. A trainer's first evaluation compares its first micro-batch between ranks that share samples.
EvaluationResult evaluate_part(TrainerState& s, const EvaluationPart& part, EvaluationLoader& loader) {
  const at::Device device = s.options.communication.device;
  const bool compares = !std::exchange(s.has_compared_evaluated, true);
  SampleCheck samples;
  const EvaluationResult result = s.engine->evaluate(part, [&] {
    Batch batch = next_of(loader);
    if (compares && !samples.has_batch()) samples.record(batch);
    return to_device(std::move(batch), device);
  });
  if (!compares) return result;
  for (const AxisSet axis : {kPipelineAxis, kTensorAxis, kContextAxis}) {
    samples.compare(s.groups.by_axes.along(axis), axis, device);
  }
  return result;
}

/// Predicts the loader's set.
void predict_set(TrainerState& s, EvaluationLoader& loader, const PredictOptions& options, const VisitOutputs& visit) {
  const EvaluationPart part = part_of(s, loader);
  s.check_caller();
  s.attempt("a prediction", [&] {
    s.start();
    loader.rewind();
    predict_part(
        s, part, [&loader] { return next_of(loader); }, options, visit);
  });
}

}  // namespace

EvaluationResult Trainer::evaluate(EvaluationLoader& loader) {
  TrainerState& s = *state_;
  const EvaluationPart part = part_of(s, loader);
  s.check_caller();
  return s.attempt("an evaluation", [&] {
    s.start();
    loader.rewind();
    return evaluate_part(s, part, loader);
  });
}

void Trainer::for_each_prediction(EvaluationLoader& loader, const VisitOutputs& visit, const PredictOptions& options) {
  TrainerState& s = *state_;
  predict_set(s, loader, options, [&](int64_t first_sample, const Tensors& outputs) {
    s.own_thread->as_caller([&] { visit(first_sample, outputs); });
  });
}

Tensors Trainer::predict(EvaluationLoader& loader, const PredictOptions& options) {
  Collected all;
  predict_set(*state_, loader, options, [&all](int64_t first, const Tensors& outputs) { all.add(first, outputs); });
  return state_->in_own_thread("a prediction", [&all] { return all.joined(); });
}

Tensors Trainer::predict(const Batch& batch, const PredictOptions& options) {
  TrainerState& s = *state_;
  const int64_t samples = samples_of(batch), micro = s.options.micro_batch / s.batch_pieces();
  s.check_caller();
  int64_t begin = 0;
  const auto next = [&] {
    const int64_t count = std::min(micro, samples - begin);
    Batch part;
    for (const at::Tensor& input : batch.inputs) part.inputs.push_back(input.narrow(0, begin, count));
    begin += count;
    return part;
  };
  return s.attempt("a prediction", [&] {
    s.start();
    const EvaluationPart part{.count = ceil_divide(samples, micro),
                              .micro_batch = micro,
                              .steps_done = s.steps_done,
                              .samples_before = samples_before(samples, data_group(), s.options.communication.device)};
    Collected all;
    predict_part(s, part, next, options, [&all](int64_t first, const Tensors& outputs) { all.add(first, outputs); });
    return all.joined();
  });
}

}  // namespace weft
