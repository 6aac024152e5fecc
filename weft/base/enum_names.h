// EnumNames: the names of an enum's values, in one list for printing, parsing and help.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// Throws the InputError of EnumNames::value_of().
[[noreturn]] void throw_not_among(std::string_view what, std::string_view name, std::span<const std::string_view> names);

/// One name for each value of `Enum`, whose values are 0 to N - 1.
template <class Enum, size_t N>
class EnumNames {
 public:
  /// `names` are in the order of the values.
  template <class... Names>
  constexpr explicit EnumNames(Names... names) : names_{names...} {
    static_assert(sizeof...(Names) == N);
  }

  /// Returns the value's name; "unknown" for a number outside the enum.
  constexpr std::string_view of(Enum value) const {
    const auto index = static_cast<size_t>(value);
    return index < N ? names_[index] : "unknown";
  }
  /// Number of values.
  static constexpr size_t size() { return N; }
  /// Returns the value called `name`. Throws InputError that lists the valid names; `what`: the key or option.
  Enum value_of(std::string_view name, std::string_view what) const {
    for (size_t i = 0; i < N; ++i) {
      if (names_[i] == name) return static_cast<Enum>(i);
    }
    throw_not_among(what, name, names_);
  }
  /// Returns the names in the order of the values.
  std::vector<std::string> all() const { return {names_.begin(), names_.end()}; }

 private:
  std::array<std::string_view, N> names_;
};

}  // namespace weft
