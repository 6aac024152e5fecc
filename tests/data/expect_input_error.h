// One clear line: the call throws InputError whose text has no line break and contains each of the given pieces.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "weft/base/error.h"

namespace weft::test {

template <typename Call>
void expect_input_error(const Call& call, const std::vector<std::string>& pieces) {
  try {
    call();
  } catch (const InputError& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    for (const auto& piece : pieces) EXPECT_NE(text.find(piece), std::string::npos) << "no \"" << piece << "\" in: " << text;
    return;
  } catch (const std::exception& error) {
    FAIL() << "not an InputError: " << error.what();
  }
  FAIL() << "no error was thrown";
}

}  // namespace weft::test
