// Found: the result of a search, or why there is none. Not an error unless the caller needs the value.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "weft/base/error.h"

namespace weft {

/// A value, or the reason for its absence.
template <class T>
struct Found {
  std::optional<T> value = {};  ///< empty: not found
  std::string why_not = {};     ///< worded like an error

  /// Returns whether there is a value.
  explicit operator bool() const { return value.has_value(); }
  /// Value; precondition: found.
  const T& operator*() const { return *value; }
  /// Member of the value; precondition: found.
  const T* operator->() const { return &*value; }

  /// Returns the value; throws InputError with why_not if it is absent.
  T take() && {
    if (!value) throw InputError(why_not);
    return std::move(*value);
  }
};

}  // namespace weft
