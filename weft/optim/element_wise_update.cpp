#include "weft/optim/element_wise_update.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "weft/base/error.h"

namespace weft {

namespace {

// Names that checkpoints use for other data of a parameter: checkpoint/format/saved_checkpoint.h.
constexpr const char* kTaken[] = {"model", "step", "ema"};

}  // namespace

void check_update(const std::shared_ptr<const ElementWiseUpdate>& update) {
  if (!update) throw InputError("optimizer: CustomOptimizer::update is null; give it an ElementWiseUpdate");
  const std::string name = update->name();
  if (name.empty() || name.find('\n') != std::string::npos)
    throw InputError(
        fmt::format("optimizer: an ElementWiseUpdate has the name '{}'; it must be one line, and not empty", name));
  const std::vector<std::string> states = update->state_names();
  for (size_t i = 0; i < states.size(); ++i) {
    const bool taken = std::find(std::begin(kTaken), std::end(kTaken), states[i]) != std::end(kTaken);
    const bool twice = std::count(states.begin(), states.end(), states[i]) > 1;
    if (!states[i].empty() && states[i].find('/') == std::string::npos && !taken && !twice) continue;
    throw InputError(fmt::format(
        "optimizer {}: state '{}' {}", name, states[i],
        twice ? "is named twice; use different names" : "cannot be a name in checkpoints; use another, without '/'"));
  }
}

}  // namespace weft
