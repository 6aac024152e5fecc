// A small text file that is there whole or not at all.
#pragma once

#include <string>

namespace weft {

/// Throws InputError, naming `option` and `path`, unless a file can be made there. Writes nothing.
void check_output_path(const std::string& option, const std::string& path);

/// Through a file beside it that is then renamed. Throws InputError naming `option` and `path`.
void write_output(const std::string& option, const std::string& path, const std::string& text);

}  // namespace weft
