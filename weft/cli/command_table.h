// The commands and options of weft as the parser has them: what help, manual pages and completion are made of.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace weft {

/// The commands of `app` that people start, in their order.
std::vector<const CLI::App*> shown_commands(const CLI::App& app);

/// The options of a command that people use, those of its groups without a name among them, in their order.
std::vector<const CLI::Option*> shown_options(const CLI::App& command);

/// "weft checkpoint list".
std::string whole_name(const CLI::App& command);

/// "-n, --ranks TEXT", or "recipe" of one by its place.
std::string option_head(const CLI::Option& option);

/// Help whose lines are broken as wrapped() does it (output.h); what goes on stands below where an option's description began,
/// or as deep as its line.
std::string wrapped_help(const std::string& help);

/// The name of a command's manual page: "weft-checkpoint-list".
std::string page_name(const CLI::App& command);
/// The page, in section 1.
std::string manual_page(const CLI::App& command);

/// A script with which bash completes commands, options, recipes that come with weft and their keys.
std::string bash_completion(const CLI::App& app);
/// The same for zsh, as the file _weft in one of its folders of functions.
std::string zsh_completion(const CLI::App& app);

}  // namespace weft
