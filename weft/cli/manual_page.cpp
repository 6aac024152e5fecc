#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "weft/cli/command_table.h"

namespace weft {

namespace {

/// Escapes text for roff: backslashes, a dot or quote at the start of a line, and "-", which would be a hyphen.
std::string roff(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const bool starts_line = result.empty() || result.back() == '\n';
    if (starts_line && (c == '.' || c == '\'')) result += "\\&";
    if (c == '-') result += '\\';
    result += c == '\\' ? "\\e" : std::string(1, c);
  }
  return result;
}

std::string synopsis(const CLI::App& command) {
  std::string text = fmt::format(".B {}\n", roff(whole_name(command)));
  if (!shown_commands(command).empty()) return text + "COMMAND ...\n";
  text += "[OPTIONS]\n";
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    const std::string name = roff(option->get_name(true));
    text += option->get_required() ? name + "\n" : fmt::format("[{}]\n", name);
  }
  return text;
}

std::string options_section(const CLI::App& command) {
  std::string text, group = "Options";
  for (const CLI::Option* option : shown_options(command)) {
    const std::string own = option->get_positional() ? "Options" : option->get_group();
    if (text.empty()) text += ".SH OPTIONS\n";
    if (own != group) text += fmt::format(".SS {}\n", roff(own));
    group = own;
    text += fmt::format(".TP\n.B {}\n{}\n", roff(option_head(*option)), roff(option->get_description()));
    if (const std::string value = option->get_default_str(); !value.empty())
      text += fmt::format("(default: {})\n", roff(value));
    if (const std::string variable = option->get_envname(); !variable.empty())
      text += fmt::format("(environment variable: {})\n", roff(variable));
  }
  return text;
}

}  // namespace

std::string page_name(const CLI::App& command) {
  std::string name = whole_name(command);
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string manual_page(const CLI::App& command) {
  std::string title = page_name(command);
  std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string text = fmt::format(".TH {} 1 \"\" \"weft {}\" \"weft\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}", roff(title),
                                 WEFT_VERSION, roff(page_name(command)), roff(command.get_description()), synopsis(command));
  if (const auto commands = shown_commands(command); !commands.empty()) {
    text += ".SH COMMANDS\n";
    for (const CLI::App* one : commands) {
      text += fmt::format(".TP\n.B {}\n{}\n", roff(one->get_name()), roff(one->get_description()));
    }
  }
  text += options_section(command);
  if (!command.get_footer().empty()) text += fmt::format(".SH NOTES\n.nf\n{}\n.fi\n", roff(wrapped_help(command.get_footer())));
  if (const CLI::App* above = command.get_parent()) text += fmt::format(".SH SEE ALSO\n.BR {} (1)\n", roff(page_name(*above)));
  return text;
}

}  // namespace weft
