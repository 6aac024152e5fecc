#include "weft/nn/modules/module_chain.h"

#include <fmt/core.h>
#include <torch/nn/module.h>

#include <numeric>
#include <string_view>

#include "weft/base/error.h"
#include "weft/nn/modules/part_wise.h"

namespace weft {

namespace {

bool is_split(const Parameter* weight) { return weight && weight->split; }

/// Class name as written in a program: "torch::nn::BatchNorm1d".
std::string class_of(const torch::nn::Module& module) {
  std::string name = module.name();
  if (name.ends_with("Impl")) name.resize(name.size() - std::string_view("Impl").size());
  return name;
}

std::string parts_of(const ActivationForm& input) {
  return fmt::format("each rank has a part of the output of layer {}", input.layer);
}

int64_t sum(const std::vector<int64_t>& values) { return std::accumulate(values.begin(), values.end(), int64_t{0}); }

/// Returns whether parts of `given` match those that a layer with this split takes. Flatten turns each position into several.
bool fits(const std::vector<int64_t>& given, const Split& split) {
  if (given.size() != split.segments.size()) return false;
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] % split.parts != 0 || given[i] * sum(split.segments) != split.segments[i] * sum(given)) return false;
  }
  return true;
}

}  // namespace

void ModuleChain::bind(const std::vector<ParamSpec>& parameters) {
  for (ChainModule& module : modules_) {
    module.layer = torch_layer(module.module);
    for (const ParamSpec& spec : parameters) {
      if (!spec.name.starts_with(module.name + ".")) continue;
      module.parameters.push_back(spec);
      if (module.layer && spec.name == module.name + ".weight") module.weight = spec.parameter;
      if (module.layer && spec.name == module.name + ".bias") module.bias = spec.parameter;
    }
  }
}

at::Tensor ModuleChain::forward(at::Tensor x, const Context& context) const {
  for (const ChainModule& module : modules_) {
    x = is_split(module.weight) ? module.layer->forward(x, *module.weight, module.bias, context) : module.run(x);
  }
  return x;
}

ActivationForm ModuleChain::check_splits(const ActivationForm& input) {
  ActivationForm form = input;
  for (const ChainModule& module : modules_) {
    refuse_splits_within(module);
    if (is_split(module.weight)) {
      form = after_split(module, form);
    } else if (!form.is_whole()) {
      form = after_whole(module, form);
    }
  }
  return form;
}

void ModuleChain::refuse_splits_within(const ChainModule& module) const {
  if (module.layer) return;
  for (const ParamSpec& spec : module.parameters) {
    if (!spec.parameter->split) continue;
    fail(module, fmt::format("its split table has a rule for {}, but {} cannot be split, only torch::nn::Linear, Conv2d and "
                             "Embedding that are modules of the sequence themselves; leave it whole",
                             spec.parameter->split->layer, class_of(*module.module)));
  }
}

ActivationForm ModuleChain::after_split(const ChainModule& module, const ActivationForm& input) const {
  const Split& split = *module.weight->split;
  const std::string why_not = module.layer->split_refusal(split);
  if (!why_not.empty()) fail(module, why_not + "; leave it whole");
  if (split.dim != 0) return after_rows(module, input);
  if (!input.is_whole())
    fail(module, fmt::format("split by columns, it needs its whole input, but {}; split it by rows, or join the outputs of {}",
                             parts_of(input), input.layer));
  const ActivationForm::Kind parts = module.layer->parts();
  if (split.joined || parts == ActivationForm::Kind::whole) return {};
  return {.kind = parts, .layer = module.name, .segments = split.segments};
}

ActivationForm ModuleChain::after_rows(const ChainModule& module, const ActivationForm& input) const {
  const Split& split = *module.weight->split;
  if (input.is_whole()) {
    if (split.segments.size() > 1)
      fail(module, "split by rows in several segments, it needs a part of its input, but receives all; use one segment");
  } else if (input.kind != module.layer->parts()) {
    fail(module, fmt::format("{}, along a dim other than its rows; join the outputs of {}", parts_of(input), input.layer));
  } else if (!fits(input.segments, split)) {
    fail(module, fmt::format("{}, which are not the parts of its rows: both need the same segments, divided by layout.tp",
                             parts_of(input)));
  }
  return {};
}

ActivationForm ModuleChain::after_whole(const ChainModule& module, const ActivationForm& input) const {
  const bool is_plain = module.parameters.empty() && module.module->buffers().empty();
  const std::optional<ActivationForm> output = is_plain ? part_wise(*module.module, input) : std::nullopt;
  if (output) return *output;
  fail(module, fmt::format("{} needs its whole input, but {}; join the outputs of {} (SplitRule::joined)",
                           class_of(*module.module), parts_of(input), input.layer));
}

void ModuleChain::fail(const ChainModule& module, const std::string& text) const {
  throw InputError(fmt::format("layout: block '{}', layer {}: {}", block_, module.name, text));
}

}  // namespace weft
