// as_error: LibTorch's errors, as one line that says where in a training they occurred.
#pragma once

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <string>

#include "weft/base/error.h"
#include "weft/nn/torch_text.h"

namespace weft {

/// LibTorch's errors have a stack trace below the first line, and do not say where in a training they occurred.
template <class Call>
auto as_error(const std::string& what, const Call& call) {
  try {
    return call();
  } catch (const c10::Error& error) {
    throw Error(fmt::format("{}: {}", what, torch_text(error)));
  }
}

}  // namespace weft
