// The errors that weft throws. The library never prints, exits or falls back: it throws one of these, with one line of text
// that says what failed, where (operation, name, axis, rank, file, key) and what to do next.
#pragma once

#include <stdexcept>
#include <string>

namespace weft {

/// Base of all weft errors; thrown itself if no class below fits.
class Error : public std::runtime_error {
 public:
  /// Escapes the text with printable() (base/printable.h), since names, paths and values may hold any bytes.
  explicit Error(const std::string& text);
};

/// The caller's input is wrong (recipe key, file, argument); the user can fix it.
class InputError : public Error {
 public:
  using Error::Error;
};

/// Ranks disagree, a peer died or a wait passed its deadline.
class CommError : public Error {
 public:
  using Error::Error;
};

/// A rank ran out of memory; the text names the category that grew.
class MemoryError : public Error {
 public:
  using Error::Error;
};

/// Training cannot continue because of a number, such as a non-finite loss.
class NumericError : public Error {
 public:
  using Error::Error;
};

}  // namespace weft
