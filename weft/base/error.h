// The one family of errors that weft throws. The library never prints, exits or falls back: it throws one of these, with
// one line of text that says what failed, where (operation, name, axis, rank, file, key) and what to do next.
#pragma once

#include <stdexcept>
#include <string>

namespace weft {

/// What all of weft's errors are; thrown itself where none of the classes below says more.
class Error : public std::runtime_error {
 public:
  /// The text becomes printable() (base/printable.h): names, paths and values in it may hold any bytes.
  explicit Error(const std::string& text);
};

/// The caller's input is wrong (recipe key, file, argument): the user can mend it.
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

/// A number that training cannot go on with (a loss that is not finite).
class NumericError : public Error {
 public:
  using Error::Error;
};

}  // namespace weft
