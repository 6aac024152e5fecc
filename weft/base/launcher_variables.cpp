#include "weft/base/launcher_variables.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/environment.h"

namespace weft {
namespace {

struct LauncherVariable {
  std::string_view name;  ///< a trailing '*' matches any suffix
  VariableScope scope;
};

constexpr LauncherVariable kVariables[] = {
    {"RANK", VariableScope::place},           {"WORLD_SIZE", VariableScope::place},
    {"LOCAL_RANK", VariableScope::place},     {"LOCAL_WORLD_SIZE", VariableScope::place},
    {"MASTER_ADDR", VariableScope::place},    {"MASTER_PORT", VariableScope::place},
    {"WEFT_STORE", VariableScope::place},     {"WEFT_BOARD", VariableScope::place},
    {"WEFT_ERROR_FD", VariableScope::place},  {"WEFT_ERROR_PIPE", VariableScope::place},
    {"WEFT_RESTART", VariableScope::place},   {"WEFT_NODES", VariableScope::place},
    {"WEFT_NODE_RANK", VariableScope::place}, {"WEFT_HEAD", VariableScope::place},
    {"TORCHELASTIC_*", VariableScope::place}, {"WEFT_TOKEN", VariableScope::job},
    {"WEFT_HOST", VariableScope::host},
};

const LauncherVariable* find_variable(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kVariables), std::end(kVariables), [&](const LauncherVariable& variable) {
    const std::string_view own = variable.name;
    return own.ends_with('*') ? name.starts_with(own.substr(0, own.size() - 1)) : name == own;
  });
  return found == std::end(kVariables) ? nullptr : found;
}

}  // namespace

bool is_launcher_variable(std::string_view name, VariableScope scope) {
  const LauncherVariable* const variable = find_variable(name);
  return variable != nullptr && variable->scope == scope;
}

bool is_launcher_variable(std::string_view name) { return find_variable(name) != nullptr; }

bool is_rank_of_launcher() {
  const std::string store = env_string("WEFT_STORE").value_or("");
  const std::string port = env_string("MASTER_PORT").value_or("");
  return env_string("RANK") && !port.empty() && store.ends_with("/" + port);
}

void leave_outer_place() {
  if (is_rank_of_launcher()) ::unsetenv("WEFT_TOKEN");
  ::unsetenv("SLURM_STEP_ID");  // without it srun's other variables are ignored (base/slurm_step.h)
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (is_launcher_variable(name, VariableScope::place)) names.emplace_back(name);
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

}  // namespace weft
