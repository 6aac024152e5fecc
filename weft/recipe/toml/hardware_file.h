// Hardware as a TOML file: the input of `weft simulate --hardware`. Examples in hardware/; keys in docs/simulate.md.
#pragma once

#include <functional>
#include <string>

#include "weft/program/simulate/hardware.h"

namespace weft {

/// Loads hardware from a file. Throws FileError: one line that starts with the file and names line, key, the value found and
/// the valid values.
Hardware load_hardware(const std::string& path);

/// Parses hardware from text; `path` names it in errors. Throws FileError as load_hardware() does.
Hardware parse_hardware(const std::string& text, const std::string& path);

/// Runs `call`, which uses hardware from `path`: an InputError becomes a FileError that starts with the path, if the path is
/// not empty.
void in_hardware_file(const std::string& path, const std::function<void()>& call);

/// Returns file text that parse_hardware() reads back to the same hardware. Unknown links are left out.
std::string hardware_text(const Hardware& hardware);

}  // namespace weft
