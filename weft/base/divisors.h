// divisors: the numbers that divide another.
#pragma once

#include <vector>

namespace weft {

/// Returns the divisors of a positive number, ascending. Takes time as its square root.
std::vector<int> divisors(int number);

}  // namespace weft
