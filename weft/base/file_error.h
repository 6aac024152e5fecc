// FileError: an InputError whose mistake is inside a file.
#pragma once

#include "weft/base/error.h"

namespace weft {

/// The text begins with the file: who reads that file for something else adds no name before it.
class FileError : public InputError {
 public:
  using InputError::InputError;
};

}  // namespace weft
