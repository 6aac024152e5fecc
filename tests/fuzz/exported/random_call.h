// Random calls of LibTorch's operators, as nodes of an exported program: arguments of the schema's types, small or absurd.
#pragma once

#include <ATen/core/dispatch/OperatorEntry.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/seeds.h"

namespace weft::fuzz {

/// Every operator that the process knows.
const std::vector<c10::OperatorName>& all_operators();

/// A number for a size, a dimension or an index: mostly small.
int64_t any_integer(test::Random& random);

/// A node that calls the operator on some of the values. Its outputs have new names that begin with `prefix`; those that are
/// tensors are appended to `made`.
nlohmann::json random_call(const c10::OperatorName& name, const std::vector<std::string>& values, const std::string& prefix,
                           test::Random& random, std::vector<std::string>& made);

}  // namespace weft::fuzz
