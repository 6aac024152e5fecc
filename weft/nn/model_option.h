// ModelOption: a choice that a model was made with. Weights alone do not tell them: heads, the base of rotary angles and the
// like leave the shapes alike. Checkpoints keep them, and loading compares.
#pragma once

#include <fmt/core.h>

#include <string>

namespace weft {

/// A choice by the name that a recipe's [model] has for it, and its value as text: {"rope_theta", "10000"}.
struct ModelOption {
  std::string name;                                     ///< the recipe's
  std::string value;                                    ///< as text
  bool operator==(const ModelOption&) const = default;  ///< to the character
};

/// One of a whole number, a number, a bool or a text.
template <class Value>
ModelOption model_option(const char* name, const Value& value) {
  return {name, fmt::format("{}", value)};
}

}  // namespace weft
