// EnumNames: the words for an enum's values, in one list for those who write, read and choose them.
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

/// A word for each value of `Enum`, which has the values 0 to N - 1.
template <class Enum, size_t N>
class EnumNames {
 public:
  /// The words in the order of the values.
  template <class... Names>
  constexpr explicit EnumNames(Names... names) : names_{names...} {
    static_assert(sizeof...(Names) == N);
  }

  /// The value's word; "unknown" for a number that is no value of the enum.
  constexpr std::string_view of(Enum value) const {
    const auto index = static_cast<size_t>(value);
    return index < N ? names_[index] : "unknown";
  }
  /// How many values there are.
  static constexpr size_t size() { return N; }
  /// The value whose word is `name`. Throws InputError that lists the words, where it is none of them; `what` is named in it.
  Enum value_of(std::string_view name, std::string_view what) const {
    for (size_t i = 0; i < N; ++i) {
      if (names_[i] == name) return static_cast<Enum>(i);
    }
    throw_not_among(what, name, names_);
  }
  /// The words in the order of the values.
  std::vector<std::string> all() const { return {names_.begin(), names_.end()}; }

 private:
  std::array<std::string_view, N> names_;
};

}  // namespace weft
