#include "weft/optim/freeze.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <cmath>
#include <typeinfo>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/nn/activation_form.h"
#include "weft/nn/block.h"
#include "weft/nn/keyed_generators.h"

namespace weft {

namespace {

std::string full_name(const NamedBlock& named, const ParamSpec& spec) {
  return named.prefix.empty() ? spec.name : named.prefix + "." + spec.name;
}

void check_range(const ParameterRule& rule) {
  const auto refuse = [&](const char* what, double value) {
    throw InputError(
        fmt::format("parameters '{}': {} = {}; must be a finite number of at least 0", shortened(rule.names), what, value));
  };
  const auto valid = [](double value) { return std::isfinite(value) && value >= 0.0; };
  if (!valid(rule.lr_factor)) refuse("lr_factor", rule.lr_factor);
  if (rule.weight_decay && !valid(*rule.weight_decay)) refuse("weight_decay", *rule.weight_decay);
}

/// Wraps a block and declares some of its parameters frozen.
class PartlyFrozen : public Block, public HasKind, public ChecksSplits, public HasRandomName {
 public:
  PartlyFrozen(std::shared_ptr<Block> block, std::vector<bool> frozen) : block_(std::move(block)), frozen_(std::move(frozen)) {}

  Tensors forward(const Tensors& inputs, const Context& context) override { return block_->forward(inputs, context); }
  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs = block_->parameters();
    for (size_t i = 0; i < specs.size(); ++i) specs[i].frozen = specs[i].frozen || frozen_.at(i);
    return specs;
  }
  std::vector<BufferSpec> buffers() override { return block_->buffers(); }
  bool can_recompute_parts() const override { return block_->can_recompute_parts(); }
  bool can_split_backward() const override { return block_->can_split_backward(); }
  bool can_chunk_loss() const override { return block_->can_chunk_loss(); }
  bool can_join_batches() const override { return block_->can_join_batches(); }
  bool always_uses_all() const override { return block_->always_uses_all(); }
  std::string random_name() const override { return random_name_of(*block_); }

  /// Blocks without a kind match no other.
  std::string kind() const override {
    const Block& inner = *block_;
    const auto* with_kind = dynamic_cast<const HasKind*>(&inner);
    std::string text = with_kind ? fmt::format("{} {}", typeid(inner).name(), with_kind->kind())
                                 : fmt::format("{}", static_cast<const void*>(&inner));
    for (const bool frozen : frozen_) text += frozen ? '*' : '.';
    return text;
  }
  ActivationForm check_splits(const ActivationForm& input) override {
    auto* checks = dynamic_cast<ChecksSplits*>(block_.get());
    return checks ? checks->check_splits(input) : ActivationForm{};
  }

 private:
  std::shared_ptr<Block> block_;
  std::vector<bool> frozen_;  ///< by parameter
};

bool has_such_a_name(const ParameterRule& rule, const std::string& name) {
  return fnmatch(rule.names.c_str(), name.c_str(), 0) == 0;
}

}  // namespace

const ParameterRule* rule_of(const ParameterRules& rules, const std::string& name) {
  for (const ParameterRule& rule : rules) {
    if (has_such_a_name(rule, name)) return &rule;
  }
  return nullptr;
}

std::string rules_text(const ParameterRules& rules) {
  std::string text;
  for (const ParameterRule& rule : rules) {
    text += fmt::format("{}'{}': rate x {}", text.empty() ? "" : ", ", rule.names, rule.lr_factor);
    if (rule.weight_decay) text += fmt::format(", weight decay {}", *rule.weight_decay);
    if (rule.muon) text += *rule.muon ? ", Muon" : ", no Muon";
    if (rule.frozen) text += ", frozen";
  }
  return text;
}

Model with_rules(Model model, const ParameterRules& rules) {
  for (const ParameterRule& rule : rules) check_range(rule);
  std::vector<bool> used(rules.size(), false), matched(rules.size(), false);
  std::string example;
  for (NamedBlock& named : model.blocks) {
    std::vector<bool> frozen;
    bool any = false;
    for (const ParamSpec& spec : named.block->parameters()) {
      const std::string name = full_name(named, spec);
      const ParameterRule* rule = spec.statistic ? nullptr : rule_of(rules, name);
      if (rule) used[static_cast<size_t>(rule - rules.data())] = true;
      if (example.empty() && !spec.statistic) example = name;
      for (size_t i = 0; i < rules.size() && !spec.statistic; ++i) {
        if (has_such_a_name(rules[i], name)) matched[i] = true;
      }
      frozen.push_back(rule && rule->frozen);
      any = any || frozen.back();
    }
    if (any) named.block = std::make_shared<PartlyFrozen>(named.block, std::move(frozen));
  }
  for (size_t i = 0; i < rules.size(); ++i) {
    if (used[i]) continue;
    throw InputError(
        fmt::format("parameters '{}' (group {}): {}", shortened(rules[i].names), i + 1,
                    matched[i] ? "earlier groups match all of these parameters; move this group before them"
                               : fmt::format("no parameter of model '{}' matches; its first is '{}'", model.name, example)));
  }
  return model;
}

}  // namespace weft
