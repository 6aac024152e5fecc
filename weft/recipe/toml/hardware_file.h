// Hardware as a TOML file: what `weft simulate --hardware` takes. hardware/ has some; docs/simulate.md tells the keys.
#pragma once

#include <functional>
#include <string>

#include "weft/program/simulate/hardware.h"

namespace weft {

/// The hardware that a file tells. Throws FileError: one line that begins with the file and names line, key, what was found and
/// what is valid.
Hardware load_hardware(const std::string& path);

/// The hardware that a text tells; `path` names it in errors. Throws FileError as load_hardware() does.
Hardware parse_hardware(const std::string& text, const std::string& path);

/// Makes `call`, which does something with hardware from `path`: an InputError that it throws becomes a FileError that begins
/// with the path, if there is one.
void in_hardware_file(const std::string& path, const std::function<void()>& call);

/// The text of a file that parse_hardware() makes the same hardware of. Links that are not known are left out.
std::string hardware_text(const Hardware& hardware);

}  // namespace weft
