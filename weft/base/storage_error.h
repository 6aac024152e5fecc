// Storage errors, by remedy: an older checkpoint replaces a damaged one, but not a temporarily unreadable one.
#pragma once

#include <exception>
#include <string>

#include "weft/base/error.h"

namespace weft {

/// The stored data is not what was written: a file is missing, cut short or changed.
class DamageError : public InputError {
 public:
  using InputError::InputError;
};

/// A device or the network failed, even after retries; the stored data may be intact.
class IoError : public Error {
 public:
  using Error::Error;
};

/// Another run holds the resource.
class HeldError : public InputError {
 public:
  using InputError::InputError;
};

/// Encodes an error, its kind and its message, as text for other ranks.
std::string encode_error(const std::exception& error);
/// Returns the message of an encoded error.
std::string encoded_message(const std::string& encoded);
/// Throws an encoded error with its kind: InputError, DamageError, IoError, HeldError, MemoryError, NumericError, CommError, or
/// Error.
[[noreturn]] void throw_encoded(const std::string& encoded);

/// Returns whether errno means a failing device or network, not a problem with the path.
bool is_io_failure(int error);
/// Throws IoError if is_io_failure(error), otherwise InputError.
[[noreturn]] void throw_storage_error(int error, const std::string& text);

}  // namespace weft
