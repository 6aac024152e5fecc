#include "weft/optim/update_ranges.h"

#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>

namespace weft {

UpdateRanges::UpdateRanges(FlatModel& model, int count, const ParameterRules& rules, const RangeOptions& options)
    : model_(model),
      options_(options),
      range_(range_elements(model.options().device.is_cpu() ? TargetDevice::cpu : TargetDevice::gpu)),
      count_(count),
      ages_(model.params().size(), 0),
      has_settings_(!rules.empty() || !options.matrices.empty()),
      states_(model.num_blocks(), std::vector<at::Tensor>(static_cast<size_t>(count))) {
  for (const Param& param : model.params()) {
    const ParameterRule* rule = rule_of(rules, param.name);
    const bool matrix = !options.matrices.empty() && options.matrices[settings_.size()];
    settings_.push_back(rule ? Setting{rule->lr_factor, rule->weight_decay, matrix} : Setting{.matrix = matrix});
  }
  if (has_settings_ || options_.most > 0) options_.most = range_;  // ranges are copied, or need memory beside them
}

void UpdateRanges::visit(int block, Visit visit) {
  const FlatBlock& flat = model_.flat(block);
  for (int i = 0; i < count_; ++i) {
    if (!states_[block][i].defined()) states_[block][i] = at::zeros_like(flat.master);
  }
  const std::optional<int64_t> number = common_number(block);
  const bool by_setting = has_settings_ || !number;
  const int64_t widest = options_.most > 0 || !by_setting ? options_.most : range_;
  const bool wide = flat.owned_gradients.scalar_type() == at::kFloat;
  for (const GroupRange& group : flat.groups) {
    if (!is_trained(group.group)) continue;
    const GroupRange own = flat.own(group);
    const int64_t all = std::max<int64_t>(own.end - own.begin, 1);
    const int64_t most = wide ? (widest > 0 ? widest : all) : range_;
    for (int64_t begin = own.begin; begin < own.end; begin += most) {
      const int64_t end = std::min(begin + most, own.end);
      const auto part = [&](const at::Tensor& whole) { return whole.narrow(0, begin, end - begin); };
      UpdateRange range{.weights = part(flat.master),
                        .gradients = part(flat.owned_gradients).to(at::kFloat),
                        .state = {},
                        .decay = group.group == ParamGroup::decay,
                        .split = group.split,
                        .number = number.value_or(1),
                        .begin = begin};
      for (int i = 0; i < count_; ++i) range.state.push_back(part(states_[block][i]));
      const std::vector<TensorPart> tensors =
          options_.tensors || by_setting ? tensors_of(block, begin, end) : std::vector<TensorPart>{};
      if (by_setting) {
        visit_by_setting(range, tensors, visit);
      } else {
        range.tensors = tensors;
        visit(range);
      }
    }
  }
}

/// If parameters of several settings lie in one range, it is visited as a whole once per setting, and only the elements of that
/// setting are kept. So vectors begin where they do without rules, and every element has the same bits for any sharding.
void UpdateRanges::visit_by_setting(const UpdateRange& range, const std::vector<TensorPart>& tensors, Visit visit) const {
  std::map<std::pair<Setting, int64_t>, std::vector<TensorPart>> by_setting;
  bool all = true;
  for (const TensorPart& part : tensors) {
    all = all && is_used(part.param);
    if (!is_used(part.param)) continue;
    by_setting[{settings_[part.param], options_.ages ? number_of(part.param) : 1}].push_back(part);
  }
  for (auto& [key, parts] : by_setting) {
    const auto& [setting, number] = key;
    UpdateRange own = range;
    own.number = number;
    own.lr_factor = setting.lr_factor;
    own.weight_decay = setting.weight_decay;
    own.matrix = setting.matrix;
    own.tensors = parts;
    if (all && by_setting.size() == 1) {
      visit(own);
      return;
    }
    own.weights = range.weights.clone();
    own.gradients = range.gradients.clone();
    for (at::Tensor& state : own.state) state = state.clone();
    visit(own);
    for (const TensorPart& part : parts) {
      const auto keep = [&part](const at::Tensor& to, const at::Tensor& from) {
        to.narrow(0, part.begin, part.end - part.begin).copy_(from.narrow(0, part.begin, part.end - part.begin));
      };
      keep(range.weights, own.weights);
      for (size_t i = 0; i < own.state.size(); ++i) keep(range.state[i], own.state[i]);
    }
  }
}

void UpdateRanges::update(int block, Visit visit) {
  this->visit(block, visit);
  finish(block);
}

void UpdateRanges::finish(int block) {
  model_.copy_master_to_shard(block);
  advance(block);
}

bool UpdateRanges::visits_in_place(int block) const {
  const bool wide = model_.flat(block).owned_gradients.scalar_type() == at::kFloat;
  return wide && options_.most == 0 && !has_settings_ && common_number(block).has_value();
}

void UpdateRanges::advance(int block) {
  for (const int index : model_.flat(block).params) ages_[index] += is_used(index) ? 1 : 0;
}

std::optional<int64_t> UpdateRanges::common_number(int block) const {
  std::optional<int64_t> common;
  for (const int index : model_.flat(block).params) {
    if (!is_used(index)) return std::nullopt;
    if (!options_.ages || !is_trained(model_.params()[index].group)) continue;
    if (common && *common != number_of(index)) return std::nullopt;
    common = number_of(index);
  }
  return common.value_or(1);
}

int64_t UpdateRanges::next_number() const {
  const std::vector<Param>& params = model_.params();
  for (size_t i = 0; i < params.size() && options_.ages; ++i) {
    if (is_trained(params[i].group) && model_.holds(params[i].block)) return number_of(i);
  }
  return 0;
}

void update_unless(const at::Tensor& refused, UpdateRange& range, UpdateRanges::Visit update) {
  UpdateRange copy = range;
  copy.weights = range.weights.clone();
  for (at::Tensor& state : copy.state) state = state.clone();
  update(copy);
  at::where_out(range.weights, refused, range.weights, copy.weights);
  for (size_t i = 0; i < copy.state.size(); ++i) at::where_out(range.state[i], refused, range.state[i], copy.state[i]);
}

GroupRange UpdateRanges::own(int param) const {
  const Param& p = model_.params()[param];
  return model_.flat(p.block).own({.group = p.group, .begin = p.offset, .end = p.offset + p.numel});
}

/// Tensors in elements [begin, end) of the block's shard.
std::vector<TensorPart> UpdateRanges::tensors_of(int block, int64_t begin, int64_t end) const {
  const FlatBlock& flat = model_.flat(block);
  std::vector<TensorPart> parts;
  for (const int index : flat.params) {
    if (!is_trained(model_.params()[index].group)) continue;
    const GroupRange own = this->own(index);
    const TensorPart part{index, std::max(own.begin, begin) - begin, std::min(own.end, end) - begin};
    if (part.begin < part.end) parts.push_back(part);
  }
  return parts;
}

}  // namespace weft
