// ParameterRule: parameters by their names, and what is otherwise for them: their rate, their weight decay, or that they are
// not trained (what PyTorch's parameter groups are for). Torch-free.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace weft {

/// What holds for the parameters whose full names match.
struct ParameterRule {
  std::string names;                        ///< a pattern as of a shell: "h.0.*", "*.bias"; * stands for dots too
  double lr_factor = 1.0;                   ///< times the learning rate; at least 0
  std::optional<double> weight_decay = {};  ///< in place of the optimizer's, of biases and norms too; at least 0
  std::optional<bool> muon = {};            ///< of the optimizer Muon: they are hidden matrices, or are not
  bool frozen = false;                      ///< they keep their values, and take neither gradients nor optimizer state

  bool operator==(const ParameterRule&) const = default;  ///< all of it
};

/// Of those that match a name the first holds; what none matches is as the optimizer says.
using ParameterRules = std::vector<ParameterRule>;

/// The rule for a parameter's full name; null: none.
const ParameterRule* rule_of(const ParameterRules& rules, const std::string& name);

/// The rules in words, one after the other; empty for none.
std::string rules_text(const ParameterRules& rules);

}  // namespace weft
