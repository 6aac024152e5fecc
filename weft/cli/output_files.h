// Options that name files to write.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <utility>
#include <vector>

namespace weft {

/// An empty name is a mistake of the command line: a variable that was never set.
CLI::Option* add_output(CLI::App& command, const std::string& option, std::string& path, const std::string& meaning);

/// Files by what names them: "--save", "the recipe". Throws InputError where two are one file; empty ones are none.
void check_different_files(const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace weft
