// The commands and options of weft as the parser has them, from which help, manual pages and completion are made.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace weft {

/// Returns the user-facing commands of `app`, in order.
std::vector<const CLI::App*> shown_commands(const CLI::App& app);

/// Returns the user-facing options of a command, including its unnamed groups', in order.
std::vector<const CLI::Option*> shown_options(const CLI::App& command);

/// Full name of a command: "weft checkpoint list".
std::string whole_name(const CLI::App& command);

/// Head of an option: "-n, --ranks TEXT"; for a positional, "recipe".
std::string option_head(const CLI::Option& option);

/// Wraps the lines of a help text with wrapped() (output.h). Continuation lines are indented like the option's description, or
/// like their line.
std::string wrapped_help(const std::string& help);

/// Name of a command's manual page: "weft-checkpoint-list".
std::string page_name(const CLI::App& command);
/// Returns the page, for section 1.
std::string manual_page(const CLI::App& command);

/// Returns a bash script that completes commands, options, shipped recipes and their keys.
std::string bash_completion(const CLI::App& app);
/// Returns the same for zsh, to be installed as _weft in a folder of its function path.
std::string zsh_completion(const CLI::App& app);

}  // namespace weft
