// Options that name files to write.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <utility>
#include <vector>

namespace weft {

/// Adds an option that takes a file's name. An empty name is a mistake of the command line: a variable that was never set.
CLI::Option* add_output(CLI::App& command, const std::string& option, std::string& path, const std::string& meaning);

/// Throws InputError for a file of weights whose name says that it is PyTorch's: weft writes safetensors.
void check_weights_name(const std::string& option, const std::string& path);

/// Throws InputError where two of `files` are one file. Each comes with what names it: "--save", "the recipe"; an empty path is
/// no file.
void check_different_files(const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace weft
