// Typed environment variables. An unset or empty variable gives nullopt; a value that cannot be parsed throws InputError with
// the variable and its value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft {

std::optional<std::string> env_string(const char* name);
std::optional<int64_t> env_int(const char* name);
/// Reads a number of at least 0.
std::optional<int> env_count(const char* name);
std::optional<double> env_double(const char* name);
/// Reads 1, true, yes and on as true, and 0, false, no and off as false.
std::optional<bool> env_bool(const char* name);

}  // namespace weft
