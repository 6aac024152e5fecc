// Found: what a search found, or why there is nothing. For answers that are no error: whoever needs one makes it one.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "weft/base/error.h"

namespace weft {

/// A value, or why there is none.
template <class T>
struct Found {
  std::optional<T> value = {};  ///< empty: nothing was found
  std::string why_not = {};     ///< as an error would say it

  /// Whether there is a value.
  explicit operator bool() const { return value.has_value(); }
  /// The value, which must be there.
  const T& operator*() const { return *value; }
  /// A member of the value, which must be there.
  const T* operator->() const { return &*value; }

  /// The value; throws InputError with why_not where there is none.
  T take() && {
    if (!value) throw InputError(why_not);
    return std::move(*value);
  }
};

}  // namespace weft
