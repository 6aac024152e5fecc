// What a caller's pointers lead to, asked of the system instead of by touching it: a wild pointer is an error, not a crash.
#pragma once

#include <cstddef>
#include <string>

#include "weft/base/error.h"

namespace weft::c {

/// Throws InputError for a null argument.
template <class T>
T* given(T* argument, const char* name) {
  if (!argument) throw InputError(std::string(name) + " is null");
  return argument;
}

/// Begins a call of this thread: pages found readable in the one before may be gone.
void forget_pages();
/// Whether this process can read the first and the last of these bytes; also true where the system does not tell. The system
/// is asked once a call for each of the first pages.
bool is_readable(const void* first, size_t bytes);
/// The same for writing.
bool is_writable(void* first, size_t bytes);

/// Returns the argument. Throws InputError if this process cannot read it.
template <class T>
const T* readable(const T* argument, const std::string& name, size_t count = 1) {
  if (is_readable(argument, count * sizeof(T))) return argument;
  throw InputError(name + " is no memory that can be read");
}
/// Returns the argument, which may be null. Throws InputError if this process cannot write it.
template <class T>
T* writable(T* argument, const std::string& name) {
  if (!argument || is_writable(argument, sizeof(T))) return argument;
  throw InputError(name + " is no memory that can be written");
}

/// Longest text that a call takes, in bytes.
inline constexpr size_t kLongestText = 1 << 20;
/// Returns a caller's text. Throws InputError for null, for memory that cannot be read, and for a text that is too long.
std::string text_of(const char* text, const char* name);

}  // namespace weft::c
