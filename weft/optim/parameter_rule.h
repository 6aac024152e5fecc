// ParameterRule: settings for parameters by name: learning rate, weight decay, or exclusion from training (like PyTorch's
// parameter groups). Torch-free.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace weft {

/// Settings of the parameters whose full names match.
struct ParameterRule {
  std::string names;                        ///< a shell pattern: "h.0.*", "*.bias"; * also matches dots
  double lr_factor = 1.0;                   ///< factor of the learning rate; at least 0
  std::optional<double> weight_decay = {};  ///< replaces the optimizer's, also for biases and norms; at least 0
  std::optional<bool> muon = {};            ///< whether Muon takes them as hidden matrices; empty: as in hidden_matrices.h
  bool frozen = false;                      ///< they keep their values and have no gradients or optimizer state

  bool operator==(const ParameterRule&) const = default;  ///< member by member
};

/// The first matching rule applies; parameters that no rule matches use the optimizer's settings.
using ParameterRules = std::vector<ParameterRule>;

/// The rule for a parameter's full name; null if no rule matches.
const ParameterRule* rule_of(const ParameterRules& rules, const std::string& name);

/// The rules in words, in order; empty without rules.
std::string rules_text(const ParameterRules& rules);

}  // namespace weft
