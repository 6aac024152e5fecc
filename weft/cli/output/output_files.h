// Options that name files to write.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <utility>
#include <vector>

namespace weft {

/// Adds an option that takes a file name. An empty name, usually an unset variable, is an error of the command line.
CLI::Option* add_output(CLI::App& command, const std::string& option, std::string& path, const std::string& meaning);

/// Throws InputError for a weights file with a PyTorch suffix: weft writes safetensors.
void check_weights_name(const std::string& option, const std::string& path);

/// Throws InputError if two of `files` are the same file. Each is a label ("--save", "the recipe") and a path; empty paths are
/// skipped.
void check_different_files(const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace weft
