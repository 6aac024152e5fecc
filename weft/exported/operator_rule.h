// Which of LibTorch's operators a file may call. The file may be a stranger's: it must reach nothing but the tensors of its
// program. LibTorch checks the arguments of operators that users call, not those of its private ones.
//
// A heavy header (the dispatcher's), for sources of this folder alone.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace weft {

/// Why a file may not call the operator, with what to do instead; empty: it may.
std::string refused_because(const c10::OperatorHandle& handle);

/// Throws InputError for arguments that the operator does not check itself: wrong ones would crash it, or take forever.
using CallCheck = void (*)(const std::vector<c10::IValue>& arguments);
/// The check before each call; null: none is needed.
CallCheck check_of(const c10::OperatorHandle& handle);

/// Whether the operator returns memory as it finds it.
bool leaves_memory_unset(const c10::OperatorHandle& handle);

}  // namespace weft
