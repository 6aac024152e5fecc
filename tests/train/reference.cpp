#include "tests/train/reference.h"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "weft/nn/flat/flat_model.h"

namespace weft {

namespace {

struct Entry {
  std::string name;
  ParamSpec spec;
  at::Tensor velocity;
  at::Tensor start;     ///< statistics: value at the step's start
  at::Tensor change;    ///< statistics: summed over micro-batches
  at::Tensor sum = {};  ///< gradients: the same
  at::Tensor average = {};
};

/// Separate ordinary tensors with the values that (seed, name) draws; no flat buffers.
std::vector<Entry> make_parameters(Model& model, const std::function<Model()>& make_model, uint64_t seed) {
  FlatModel drawn(make_model(), {});
  for (int b = 0; b < drawn.num_blocks(); ++b) drawn.initialise(b, seed);
  std::vector<Entry> entries;
  for (NamedBlock& named : model.blocks) {
    for (const ParamSpec& spec : named.block->parameters()) {
      Entry entry{named.prefix.empty() ? spec.name : named.prefix + "." + spec.name, spec, {}, {}, {}};
      for (const Param& param : drawn.params()) {
        if (param.name == entry.name) spec.parameter->value = param.parameter->value.detach().clone();
      }
      entry.velocity = at::zeros_like(spec.parameter->value);
      entry.average = spec.parameter->value.detach().clone();
      spec.parameter->value.requires_grad_(!spec.statistic);
      entries.push_back(std::move(entry));
    }
  }
  return entries;
}

/// Returns the loss of the micro-batch's sum over `count`, and leaves its gradients added up.
double run_micro_batch(Model& model, std::vector<Entry>& entries, const Batch& batch, const Context& context, double count) {
  for (Entry& e : entries) {
    if (e.spec.statistic) e.start = e.spec.parameter->value.clone();
  }
  Tensors x = batch.inputs;
  for (NamedBlock& named : model.blocks) x = named.block->forward(x, context);
  const at::Tensor loss = model.loss(x, batch.target).sum.div(count);
  loss.backward();
  c10::NoGradGuard no_grad;
  for (Entry& e : entries) {
    if (!e.spec.statistic) continue;
    e.change.add_(e.spec.parameter->value.sub(e.start));
    e.spec.parameter->value.copy_(e.start);
  }
  return loss.item<double>();
}

double squares(const std::vector<Entry>& entries) {
  double total = 0.0;
  for (const Entry& e : entries) {
    if (!e.spec.statistic) total += e.spec.parameter->value.grad().to(at::kDouble).square().sum().item<double>();
  }
  return total;
}

/// Adds the gradients of one micro-batch to the earlier ones.
void add_up(std::vector<Entry>& entries) {
  for (Entry& e : entries) {
    if (e.spec.statistic) continue;
    at::Tensor& gradient = e.spec.parameter->value.mutable_grad();
    e.sum = e.sum.defined() ? e.sum.add(gradient) : gradient;
    gradient.reset();
  }
}

double clip_scale(double norm, double limit) { return limit > 0.0 && norm > limit ? limit / norm : 1.0; }

void update(std::vector<Entry>& entries, const Sgd& sgd, double scale, int64_t micro_batches) {
  c10::NoGradGuard no_grad;
  for (Entry& e : entries) {
    at::Tensor& value = e.spec.parameter->value;
    if (e.spec.statistic) {
      value.add_(e.change.div(static_cast<double>(micro_batches)));
      continue;
    }
    const at::Tensor gradient = value.grad().mul(scale).add(value, e.spec.decay ? sgd.weight_decay : 0.0);
    e.velocity.mul_(sgd.momentum).add_(gradient);
    value.sub_(sgd.nesterov ? gradient.add(e.velocity, sgd.momentum).mul(sgd.lr) : e.velocity.mul(sgd.lr));
    value.mutable_grad().reset();
  }
}

/// Written out, without calling weft's version.
void average(std::vector<Entry>& entries, const WeightAverage& options, int64_t step) {
  c10::NoGradGuard no_grad;
  const auto n = static_cast<double>(step);
  const double keep = options.warmup ? std::min(options.decay, (1.0 + n) / (10.0 + n)) : options.decay;
  for (Entry& e : entries) e.average = e.average.mul(keep).add(e.spec.parameter->value.detach(), 1.0 - keep);
}

}  // namespace

Batch slice(const Batch& batch, int64_t begin, int64_t count) {
  Batch part{.inputs = {}, .target = batch.target.narrow(0, begin, count), .first_sample = batch.first_sample + begin};
  for (const at::Tensor& input : batch.inputs) part.inputs.push_back(input.narrow(0, begin, count));
  return part;
}

Trained train_reference(const std::function<Model()>& make_model, const std::function<Batch(int64_t)>& batch_of,
                        const ReferenceOptions& o) {
  Model model = make_model();
  std::vector<Entry> entries = make_parameters(model, make_model, o.seed);
  const BatchSizes sizes(o.global_batch, o.ramp);
  Trained trained;
  for (int64_t step = 0; step < o.steps; ++step) {
    const int64_t micro_batches = sizes.at(step) / o.micro_batch;
    const Batch batch = batch_of(step);
    const double count = static_cast<double>(batch.target.ne(kIgnore).sum().item<int64_t>());
    for (Entry& e : entries) e.change = at::zeros_like(e.velocity);
    double loss = 0.0, small = 0.0, small_batches = 0.0;
    for (int64_t j = 0; j < micro_batches; ++j) {
      const Batch micro = slice(batch, j * o.micro_batch, o.micro_batch);
      loss += run_micro_batch(model, entries, micro, {.seed = o.seed, .step = step, .first_sample = micro.first_sample}, count);
      if (o.small_batch_every > 0 && j % o.small_batch_every == 0) {
        small += squares(entries) * static_cast<double>(micro_batches * micro_batches);
        small_batches += 1.0;
      }
      add_up(entries);
    }
    for (Entry& e : entries) {
      if (!e.spec.statistic) e.spec.parameter->value.mutable_grad() = std::exchange(e.sum, {});
    }
    trained.losses.push_back(loss);
    trained.small_squares.push_back(small_batches > 0.0 ? small / small_batches : 0.0);
    trained.norms.push_back(std::sqrt(squares(entries)));
    update(entries, o.sgd, clip_scale(trained.norms.back(), o.clip), micro_batches);
    average(entries, o.average, step);
  }
  for (Entry& e : entries) {
    trained.values.emplace_back(e.name, e.spec.parameter->value.detach());
    if (o.average.is_kept()) trained.averages.emplace_back(e.name, e.average);
  }
  return trained;
}

}  // namespace weft
