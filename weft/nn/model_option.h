// ModelOption: an option of a model that does not show in the shapes of its weights, such as the number of heads or the base of
// rotary angles. Checkpoints save these options, and loading compares them.
#pragma once

#include <fmt/core.h>

#include <string>

namespace weft {

/// An option by its name in a recipe's [model], and its value as text: {"rope_theta", "10000"}.
struct ModelOption {
  std::string name;                                     ///< as in the recipe
  std::string value;                                    ///< as text
  bool operator==(const ModelOption&) const = default;  ///< exact comparison
};

/// Makes an option from an integer, a number, a bool or a string.
template <class Value>
ModelOption model_option(const char* name, const Value& value) {
  return {name, fmt::format("{}", value)};
}

}  // namespace weft
