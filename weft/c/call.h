// One call through the C interface: its exceptions become a status and a text, by thread.
#pragma once

#include <c10/util/FunctionRef.h>

#include <string>

#include "weft/base/error.h"

namespace weft::c {

/// Runs `call` and returns WEFT_OK, or the kind of what it threw, with the text for last_error(). `name` is the function
/// called.
int guarded(const char* name, c10::function_ref<void()> call) noexcept;

/// Text of the last failure in this thread; empty without one.
const char* last_error() noexcept;

/// Throws InputError for a null argument.
template <class T>
T* given(T* argument, const char* name) {
  if (!argument) throw InputError(std::string(name) + " is null");
  return argument;
}

/// Longest text that a call takes, in bytes.
inline constexpr size_t kLongestText = 1 << 20;
/// Returns a caller's text. Throws InputError for null, and for one that is too long.
std::string text_of(const char* text, const char* name);

}  // namespace weft::c
