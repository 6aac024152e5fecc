// Reads values of a program's JSON: arguments and shapes (torch/_export/serde/schema.py).
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>

#include "weft/exported/graph.h"

namespace weft {

/// The one entry of a union: its kind and its value. Throws FileError for anything else.
std::pair<std::string, const nlohmann::json&> entry_of(const nlohmann::json& one);
/// An argument of an operator, or what it returns.
ExportedArgument argument_of(const nlohmann::json& json);
/// Shapes by the names of their tensors.
std::map<std::string, ExportedShape> shapes_of(const nlohmann::json& tensors);

}  // namespace weft
