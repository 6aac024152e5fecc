// One call through the C interface: its exceptions become a status and a text, by thread, and the caller's floating-point state
// stays the caller's.
#pragma once

#include <c10/util/FunctionRef.h>

namespace weft::c {

/// Runs `call` and returns WEFT_OK, or the kind of what it threw, with the text for last_error(). `name` is the function
/// called. Refused in a process forked after another call: the threads of what is in use are not there.
int guarded(const char* name, c10::function_ref<void()> call) noexcept;

/// Within guarded(), runs a function of the caller's in its own floating-point state.
void as_caller(c10::function_ref<void()> call);

/// Text of the last failure in this thread; empty without one.
const char* last_error() noexcept;

}  // namespace weft::c
