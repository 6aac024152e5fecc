// Hardware as a TOML file: what `weft simulate --hardware` takes. hardware/ has some; docs/simulate.md tells the keys.
#pragma once

#include <functional>
#include <string>

#include "weft/program/simulate/hardware.h"

namespace weft {

/// Throws FileError: one line that begins with the file and names file, line, key, what was found and what is valid.
Hardware load_hardware(const std::string& path);

/// The same from text; `path` names it in errors.
Hardware parse_hardware(const std::string& text, const std::string& path);

/// For what is done with hardware from `path`: an InputError that `call` throws becomes a FileError that begins with the path,
/// if there is one.
void in_hardware_file(const std::string& path, const std::function<void()>& call);

/// A file that parse_hardware() makes the same hardware of. Links that are not known are left out.
std::string hardware_text(const Hardware& hardware);

}  // namespace weft
