#include "weft/recipe/toml/toml_value.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>
#include <type_traits>
#include <variant>

namespace weft {

namespace {

/// Text that needs no escapes goes in double quotes, as recipes have it; toml++ prefers single ones.
bool is_plain(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
}

template <class Value>
std::string written(const Value& value) {
  if constexpr (std::is_same_v<Value, double>)
    return fmt::format("{}", value);  // the shortest form, which toml++ does not write
  if constexpr (std::is_same_v<Value, std::string>) {
    if (is_plain(value)) return fmt::format("\"{}\"", value);
  }
  std::ostringstream text;
  text << toml::value(value);
  return text.str();
}

}  // namespace

std::string toml_value(const KeyTarget& target) {
  const auto text = [](const auto* value) -> std::string {
    using Value = std::remove_cv_t<std::remove_pointer_t<decltype(value)>>;
    if constexpr (std::is_same_v<Value, std::optional<double>> || std::is_same_v<Value, std::optional<int64_t>> ||
                  std::is_same_v<Value, std::optional<bool>>) {
      return *value ? written(**value) : "";
    } else if constexpr (std::is_same_v<Value, uint64_t>) {
      return written(static_cast<int64_t>(*value));
    } else if constexpr (std::is_same_v<Value, RunLength>) {
      return value->unit == LengthUnit::steps ? fmt::format("{:.0f}", value->amount) : written(run_length_text(*value));
    } else {
      return written(*value);
    }
  };
  return std::visit(text, target);
}

}  // namespace weft
