// Found: what a search found, or why there is nothing. For answers that are no error: whoever needs one makes it one.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "weft/base/error.h"

namespace weft {

template <class T>
struct Found {
  std::optional<T> value = {};
  std::string why_not = {};  ///< as an error would say it

  explicit operator bool() const { return value.has_value(); }
  const T& operator*() const { return *value; }
  const T* operator->() const { return &*value; }

  /// The value; throws InputError with why_not where there is none.
  T take() && {
    if (!value) throw InputError(why_not);
    return std::move(*value);
  }
};

}  // namespace weft
