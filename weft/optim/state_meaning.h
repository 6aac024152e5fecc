// What an optimizer's state means: whether another may go on from it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/optim/optimizer_options.h"

namespace weft {

/// What each tensor of state is, by its name, in words: two optimizers whose words are the same may go on from one another's.
std::map<std::string, std::string> state_meanings(const OptimizerOptions& options);
/// The same of a checkpoint that does not say, by the names of the states in it; without those that may be several optimizers'.
std::map<std::string, std::string> meanings_of_names(const std::vector<std::string>& names);

}  // namespace weft
