// Options that name files to write.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <utility>
#include <vector>

#include "weft/recipe/recipe.h"

namespace weft {

/// Adds an option that takes a file name. An empty name, usually an unset variable, is an error of the command line.
CLI::Option* add_output(CLI::App& command, const std::string& option, std::string& path, const std::string& meaning);

/// Throws InputError for a weights file with a PyTorch suffix: weft writes safetensors.
void check_weights_name(const std::string& option, const std::string& path);

/// Labels ("--save", "the recipe") and paths; those without a path are skipped.
using NamedFiles = std::vector<std::pair<std::string, std::string>>;

/// Throws InputError if two of `files` are the same file.
void check_different_files(const NamedFiles& files);

/// Throws InputError if two of `written` are the same file, or one of them is read: one of `read`, or of those that the recipe
/// names.
void check_not_read(const Recipe& recipe, NamedFiles read, const NamedFiles& written);

}  // namespace weft
