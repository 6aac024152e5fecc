#include "weft/cli/ranks/as_ranks.h"

#include <utility>

#include "weft/base/port_range.h"
#include "weft/cli/ranks/launch_ranks.h"
#include "weft/train/run/options_of_recipe.h"

namespace weft {

int as_ranks(const Recipe& recipe, std::optional<int> num_ranks, const std::vector<std::string>& command,
             const std::function<void(const World&)>& here) {
  use_ports(recipe.run.ports);
  if (num_ranks.value_or(1) > 1) {
    LaunchOptions options;
    options.num_ranks = *num_ranks;
    options.command = command;
    return launch_ranks(std::move(options), no_restarts(*num_ranks));
  }
  here(num_ranks ? World() : World::from_environment(timeout_of(recipe)));
  return 0;
}

}  // namespace weft
