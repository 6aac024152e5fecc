#include "weft/base/environment.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "weft/base/error.h"
#include "weft/base/parse_number.h"
#include "weft/base/printable.h"

namespace weft {
namespace {

[[noreturn]] void refuse(const char* name, const std::string& value, std::string_view wanted) {
  throw InputError(fmt::format("environment variable {}='{}' is not {}; correct or unset it", name, shortened(value), wanted));
}

template <typename Number>
std::optional<Number> env_number(const char* name, std::string_view wanted) {
  const std::optional<std::string> text = env_string(name);
  if (!text) return std::nullopt;
  Number value{};
  const std::errc error = read_number(*text, value);
  if (error == std::errc::result_out_of_range) refuse(name, *text, "in range");
  if (error != std::errc()) refuse(name, *text, wanted);
  return value;
}

}  // namespace

std::optional<std::string> env_string(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::optional<int64_t> env_int(const char* name) { return env_number<int64_t>(name, "a whole number"); }

std::optional<int> env_count(const char* name) {
  const std::optional<int> value = env_number<int>(name, "a whole number of at least 0");
  if (value && *value < 0) refuse(name, *env_string(name), "a whole number of at least 0");
  return value;
}

std::optional<double> env_double(const char* name) { return env_number<double>(name, "a number"); }

std::optional<bool> env_bool(const char* name) {
  const std::optional<std::string> text = env_string(name);
  if (!text) return std::nullopt;
  for (const char* yes : {"1", "true", "yes", "on"}) {
    if (*text == yes) return true;
  }
  for (const char* no : {"0", "false", "no", "off"}) {
    if (*text == no) return false;
  }
  refuse(name, *text, "1, true, yes, on, 0, false, no or off");
}

}  // namespace weft
