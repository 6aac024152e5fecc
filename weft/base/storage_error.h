// Kinds of errors about what is stored, by what is to be done about them: a checkpoint that is damaged is passed over for an
// older one, one that cannot be read at the moment is not.
#pragma once

#include <exception>
#include <string>

#include "weft/base/error.h"

namespace weft {

/// What is stored is not what was written: a file is missing, cut short or changed.
class DamageError : public InputError {
 public:
  using InputError::InputError;
};

/// A device or the network failed, also when it was asked again: what is stored may be as it should be.
class IoError : public Error {
 public:
  using Error::Error;
};

/// Another run has what is asked for.
class HeldError : public InputError {
 public:
  using InputError::InputError;
};

/// An error as a text that other ranks are told: its kind and what it says.
std::string told_error(const std::exception& error);
/// What such a text says.
std::string told_text(const std::string& told);
/// Throws an error of the kind that such a text tells of: InputError, DamageError, IoError, HeldError, MemoryError,
/// NumericError, CommError, or Error.
[[noreturn]] void throw_told(const std::string& told);

/// Whether errno tells of a device or a network that fails, rather than of what the path names.
bool is_io_failure(int error);
/// Throws IoError where errno tells of such a failure, InputError otherwise.
[[noreturn]] void throw_storage_error(int error, const std::string& text);

}  // namespace weft
