#include "weft/optim/element_wise_update.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "weft/base/error.h"

namespace weft {

namespace {

// What checkpoints call other things of a parameter: checkpoint/format/saved_checkpoint.h.
constexpr const char* kTaken[] = {"model", "step", "ema"};

}  // namespace

void check_update(const std::shared_ptr<const ElementWiseUpdate>& update) {
  if (!update) throw InputError("optimizer: CustomOptimizer::update is null; give it an ElementWiseUpdate");
  const std::string name = update->name();
  if (name.empty() || name.find('\n') != std::string::npos)
    throw InputError(
        fmt::format("optimizer: an ElementWiseUpdate is called '{}'; its name must be one line, and not empty", name));
  const std::vector<std::string> states = update->state_names();
  for (size_t i = 0; i < states.size(); ++i) {
    const bool taken = std::find(std::begin(kTaken), std::end(kTaken), states[i]) != std::end(kTaken);
    const bool twice = std::count(states.begin(), states.end(), states[i]) > 1;
    if (!states[i].empty() && states[i].find('/') == std::string::npos && !taken && !twice) continue;
    throw InputError(fmt::format(
        "optimizer {}: state '{}' {}", name, states[i],
        twice ? "is named twice; give each a name of its own" : "cannot be a name in checkpoints; take another, without '/'"));
  }
}

}  // namespace weft
