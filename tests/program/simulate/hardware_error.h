// hardware_error: what check_hardware() says of hardware.
#pragma once

#include <string>

#include "weft/base/error.h"
#include "weft/program/simulate/hardware.h"

namespace weft::test {

/// Text of the error; "no error" if there is none.
inline std::string error_of(const Hardware& hardware) {
  try {
    check_hardware(hardware);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace weft::test
