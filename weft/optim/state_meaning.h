// Meaning of an optimizer's state, which decides whether another optimizer can resume from it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/optim/optimizer_options.h"

namespace weft {

/// Meaning of each state tensor by name, in words: two optimizers with the same words may resume from each other's state.
std::map<std::string, std::string> state_meanings(const OptimizerOptions& options);
/// The same for a checkpoint that does not record meanings, from its state names; omits names that several optimizers use.
std::map<std::string, std::string> meanings_of_names(const std::vector<std::string>& names);

}  // namespace weft
