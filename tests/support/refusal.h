// refusal, failure: the error text of a call that must fail.
#pragma once

#include <functional>
#include <string>

#include "weft/base/error.h"

namespace weft::test {

/// Returns the text of the InputError that the call throws; empty if it throws none.
inline std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

/// Returns the text of the Error of any kind that the call throws; empty if it throws none.
inline std::string failure(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace weft::test
