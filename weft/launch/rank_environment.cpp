#include "weft/launch/rank_environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string_view>

#include "weft/base/environment.h"
#include "weft/base/launcher_variables.h"

namespace weft {

std::vector<std::string> rank_environment(const RankVariables& variables) {
  std::vector<std::string> own = {fmt::format("RANK={}", variables.rank),
                                  fmt::format("WORLD_SIZE={}", variables.num_ranks),
                                  fmt::format("LOCAL_RANK={}", variables.local_rank),
                                  fmt::format("LOCAL_WORLD_SIZE={}", variables.num_local_ranks),
                                  fmt::format("MASTER_ADDR={}", variables.address),
                                  fmt::format("MASTER_PORT={}", variables.port)};
  if (!variables.store.empty()) own.push_back(fmt::format("WEFT_STORE={}/{}", variables.store, variables.port));
  if (!env_string("OMP_NUM_THREADS")) own.push_back(fmt::format("OMP_NUM_THREADS={}", variables.threads));
  std::vector<std::string> result;
  // Variables of another place, an outer launcher's or this host's, do not apply to these ranks.
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!is_launcher_variable(text.substr(0, text.find('=')), VariableScope::place)) result.emplace_back(text);
  }
  result.insert(result.end(), own.begin(), own.end());
  return result;
}

}  // namespace weft
