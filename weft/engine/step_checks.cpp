#include "weft/engine/step_checks.h"

#include <ATen/ops/isfinite.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace weft {

StepChecks::StepChecks(FlatModel& model, bool watches_operators) : model_(model) {
  if (watches_operators) seen_ = std::make_shared<SeenOperators>();
}

void StepChecks::begin_step() {
  forwarded_.clear();
  finding_.reset();
  ranges_.clear();
}

void BlockRange::add(const BlockRange& other) {
  if (other.numel > 0) {
    least = numel > 0 ? std::min(least, other.least) : other.least;
    greatest = numel > 0 ? std::max(greatest, other.greatest) : other.greatest;
  }
  squares += other.squares;
  numel += other.numel;
  not_finite += other.not_finite;
}

void add_range(const BlockRange& range, std::vector<BlockRange>& all) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const BlockRange& x) { return x.block == range.block && x.what == range.what; });
  found == all.end() ? all.push_back(range) : found->add(range);
}

/// Joins the values to those of earlier micro-batches, or replaces those.
void StepChecks::add_range(int block, const char* what, const at::Tensor& value, bool replaces) {
  if (!has_values(value)) return;
  const c10::NoGradGuard no_grad;
  const TensorRange range = range_of(value);
  const at::Tensor wide = value.detach().to(at::kDouble);
  const at::Tensor finite = range.not_finite == 0 ? wide : at::where(wide.isfinite(), wide, at::zeros_like(wide));
  if (replaces) {
    for (BlockRange& x : ranges_) {
      if (x.block == block && x.what == what) x = {.block = block, .what = what};
    }
  }
  weft::add_range({.block = block,
                   .what = what,
                   .least = range.least,
                   .greatest = range.greatest,
                   .squares = finite.square().sum().item<double>(),
                   .numel = value.numel() - range.not_finite,
                   .not_finite = range.not_finite},
                  ranges_);
}

void StepChecks::begin(const CheckedCall& call, const Tensors& inputs) {
  call_ = call;
  if (!seen_) return;
  SeenOperators& seen = *seen_;
  seen.here = {.pass = call.pass,
               .block = model_.model().blocks[call.block].name,
               .block_index = call.block,
               .micro_batch = call.micro_batch};
  seen.samples = call.samples;
  seen.first_sample = call.first_sample;
  const bool has_tokens = !inputs.empty() && inputs[0].defined() &&
                          (inputs[0].dim() == 3 || (inputs[0].dim() == 2 && !inputs[0].is_floating_point()));
  seen.tokens = has_tokens ? inputs[0].size(1) : 0;
  seen.names.clear();
  seen.begin_scope();
  for (const int index : model_.flat(call.block).params) {
    const Param& param = model_.params()[index];
    if (param.parameter && param.parameter->value.defined() && param.parameter->value.numel() > 0)
      seen.names[param.parameter->value.const_data_ptr()] = param.name;
  }
}

void StepChecks::end() {
  if (seen_) seen_->is_on = false;
}

/// Follows a value that counts to its origin, if it is not finite. Returns whether it is.
bool StepChecks::judge(const at::Tensor& value, const std::string& name) {
  if (!seen_ || finding_ || !has_values(value)) return true;
  const TensorRange range = range_of(value, name);
  if (range.not_finite == 0) return true;
  int origin = seen_->origin_of(value);
  if (origin < 0) origin = seen_->add(Finding::Kind::unseen, value, range);
  finding_ = seen_->finding(origin);
  return false;
}

void StepChecks::look_at_weights(int block) {
  for (const int index : model_.flat(block).params) {
    const Param& param = model_.params()[index];
    if (!param.parameter || !has_values(param.parameter->value)) continue;
    const at::Tensor& value = param.parameter->value;
    const TensorRange range = range_of(value, "'" + param.name + "'");
    if (range.not_finite == 0) continue;
    bool is_owner = !has_values(model_.flat(block).master);
    if (!is_owner) is_owner = range_of(model_.flat(block).master).not_finite > 0;
    const bool was_owner = std::exchange(seen_->here.is_owner, is_owner);
    const int64_t samples = std::exchange(seen_->samples, 0);
    seen_->add(Finding::Kind::weight, value, range);
    seen_->here.is_owner = was_owner;
    seen_->samples = samples;
  }
}

void StepChecks::look_at_inputs(const Tensors& inputs, Finding::Kind kind) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!has_values(inputs[i])) continue;
    const TensorRange range = range_of(inputs[i], kind == Finding::Kind::data ? "input " + std::to_string(i) : "a tensor");
    if (range.not_finite == 0) continue;
    const int known = seen_->origin_of(inputs[i]);
    seen_->set_scope_input(known >= 0 ? known : seen_->add(kind, inputs[i], range));
  }
}

void StepChecks::begin_forward(CheckedCall call, const Tensors& inputs, bool is_data) {
  if (!forwarded_.emplace(call.block, call.micro_batch).second) call.pass = "recompute";
  begin(call, inputs);
  if (!seen_) return;
  look_at_weights(call.block);
  look_at_inputs(inputs, is_data ? Finding::Kind::data : Finding::Kind::received);
  seen_->is_on = true;
}

void StepChecks::end_forward(const Tensors& outputs) {
  end();
  for (const at::Tensor& output : outputs) {
    if (std::string_view(call_.pass) == "forward") add_range(call_.block, "output", output);
    if (!seen_ || !has_values(output) || seen_->origin_of(output) >= 0) continue;
    const TensorRange range = range_of(output, "its output");
    if (range.not_finite > 0) seen_->add(Finding::Kind::unseen, output, range);
  }
}

void StepChecks::begin_loss(const CheckedCall& call, const Tensors& outputs, const at::Tensor& target) {
  begin(call, outputs);
  if (!seen_) return;
  look_at_inputs(outputs, Finding::Kind::received);
  look_at_inputs({target}, Finding::Kind::data);
  seen_->is_on = true;
}

void StepChecks::end_loss(const at::Tensor& sum) { judge(sum, "the loss"); }

void StepChecks::end_loss_backward(const Tensors& gradients) {
  end();
  for (const at::Tensor& gradient : gradients) judge(gradient, "the gradient of the outputs");
}

void StepChecks::begin_backward(const CheckedCall& call, const Tensors& gradients) {
  begin(call, gradients);
  for (const at::Tensor& gradient : gradients) {
    if (gradient.defined()) add_range(call.block, "gradient of the output", gradient);
  }
  if (!seen_) return;
  look_at_inputs(gradients, Finding::Kind::received);
  seen_->is_on = true;
}

void StepChecks::end_backward(const Tensors& inputs) {
  end();
  look_at_gradients(call_.block);
  for (const at::Tensor& input : inputs) judge(input, "the gradient of its input");
}

void StepChecks::look_at_gradients(int block) {
  if (model_.flat(block).gradients_empty) return;
  add_range(block, "gradients", model_.flat(block).gradients, /*replaces=*/true);
  for (const int index : model_.flat(block).params) {
    const Param& param = model_.params()[index];
    if (!param.parameter || !has_values(param.parameter->gradient)) continue;
    judge(param.parameter->gradient, "the gradient of '" + param.name + "'");
  }
}

void StepChecks::begin_update(int block) {
  end();
  begin({.pass = "update", .block = block}, {});
  if (seen_) seen_->is_on = true;
}

void StepChecks::end_update(int block) {
  end();
  const at::Tensor& master = model_.flat(block).master;
  if (!has_values(master)) return;
  add_range(block, "weights", master);
  judge(master, "weights of " + model_.model().blocks[block].name);
}

void StepChecks::sent(const Tensors& values) {
  for (const at::Tensor& value : values) judge(value, "what was sent");
}

}  // namespace weft
