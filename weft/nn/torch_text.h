// torch_text: what an error of LibTorch's says, for an error of weft's.
#pragma once

#include <c10/util/Exception.h>

#include <string>

namespace weft {

/// Returns the text on one line, without the stack trace. Of long ones, such as lists of kernels, the middle is cut out.
std::string torch_text(const c10::Error& error);

}  // namespace weft
