// FileError: an InputError about a mistake inside a file.
#pragma once

#include "weft/base/error.h"

namespace weft {

/// The text begins with the file's name, so callers add no name in front.
class FileError : public InputError {
 public:
  using InputError::InputError;
};

}  // namespace weft
