// Environment variables with types. An unset or empty variable is no value; one that cannot be read as its type is an
// InputError that names the variable and what it holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft {

std::optional<std::string> env_string(const char* name);
std::optional<int64_t> env_int(const char* name);
/// The variable as a number that is not negative.
std::optional<int> env_count(const char* name);
std::optional<double> env_double(const char* name);
/// True for 1, true, yes and on, false for 0, false, no and off.
std::optional<bool> env_bool(const char* name);

}  // namespace weft
