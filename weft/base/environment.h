// Environment variables with types. An unset or empty variable is no value; one that cannot be read as its type is an
// InputError that names the variable and what it holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft {

std::optional<std::string> env_string(const char* name);
std::optional<int64_t> env_int(const char* name);
std::optional<double> env_double(const char* name);
/// 1, true, yes, on and 0, false, no, off.
std::optional<bool> env_bool(const char* name);

}  // namespace weft
