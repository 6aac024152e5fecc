#include "weft/cli/overrides.h"

#include <CLI/CLI.hpp>

namespace weft {

void add_overrides(CLI::App& command, std::vector<std::string>& overrides) {
  command.add_option("--set", overrides, "section.key=value: replace a key of the recipe; repeatable")->allow_extra_args(false);
}

}  // namespace weft
