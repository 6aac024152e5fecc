// number_range: checks an option like CLI::Range, which lets NaN pass.
#pragma once

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdint>
#include <string>

namespace weft {

/// For options that count something.
inline CLI::Validator positive_count() { return CLI::Range(int64_t{1}, int64_t{1'000'000'000'000}); }

inline CLI::Validator number_range(double least, double most) {
  return CLI::Validator(CLI::Range(least, most)) & CLI::Validator(
                                                       [](const std::string& text) -> std::string {
                                                         double value = 0.0;
                                                         if (!CLI::detail::lexical_cast(text, value) || !std::isnan(value))
                                                           return {};
                                                         return fmt::format("Value {} is not a number", text);
                                                       },
                                                       "");
}

}  // namespace weft
