#include "weft/cli/command_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>

#include "weft/cli/output/output.h"

namespace weft {

std::vector<const CLI::App*> shown_commands(const CLI::App& app) {
  std::vector<const CLI::App*> commands;
  for (const CLI::App* command : app.get_subcommands({})) {
    const bool is_for_people = !command->get_group().empty();
    if (is_for_people && !command->get_name().empty()) commands.push_back(command);
  }
  return commands;
}

std::vector<const CLI::Option*> shown_options(const CLI::App& command) {
  std::vector<const CLI::Option*> options;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional() || !option->get_group().empty()) options.push_back(option);
  }
  for (const CLI::App* group : command.get_subcommands({})) {
    if (!group->get_name().empty()) continue;
    const auto own = shown_options(*group);
    std::copy_if(own.begin(), own.end(), std::back_inserter(options),
                 [](const CLI::Option* one) { return one->get_name() != "--help"; });
  }
  return options;
}

std::string whole_name(const CLI::App& command) {
  const CLI::App* above = command.get_parent();
  return above == nullptr ? command.get_name() : whole_name(*above) + " " + command.get_name();
}

std::string option_head(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name(true);
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  const bool takes_value = option.get_items_expected_max() > 0;
  return fmt::format("{}{}", fmt::join(names, ", "), takes_value ? " " + option.get_type_name() : "");
}

namespace {

/// Column at which a continuation line begins: that of the description (after two or more blanks), otherwise that of the text.
size_t hanging_indent(const std::string& line) {
  const size_t text = line.find_first_not_of(' ');
  if (text == std::string::npos) return 0;
  const size_t gap = line.find("  ", text);
  const size_t description = gap == std::string::npos ? gap : line.find_first_not_of(' ', gap);
  return description == std::string::npos || description > kColumns / 2 ? text : description;
}

}  // namespace

std::string wrapped_help(const std::string& help) {
  std::string result;
  for (size_t begin = 0; begin < help.size();) {
    const size_t end = std::min(help.find('\n', begin), help.size());
    const std::string line = help.substr(begin, end - begin);
    result += wrapped(line, hanging_indent(line)) + (end < help.size() ? "\n" : "");
    begin = end + 1;
  }
  return result;
}

}  // namespace weft
