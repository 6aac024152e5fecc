// Meta kernels for operators that have none: they run on the CPU on zeros, for the shapes alone.
#pragma once

#include <string>

namespace weft {

/// Registers one for the operator ("aten::glu_backward"), on all of its overloads that have a kernel for CPUs and none for the
/// meta device. Returns whether there was any, now or before: not for operators whose shapes depend on values, that return
/// views, or that draw random numbers.
bool register_meta_by_running(const std::string& name);

}  // namespace weft
