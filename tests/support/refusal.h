// refusal: what a call says that must not be possible.
#pragma once

#include <functional>
#include <string>

#include "weft/base/error.h"

namespace weft::test {

/// The text of the InputError that the call throws; empty where it throws none.
inline std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

}  // namespace weft::test
