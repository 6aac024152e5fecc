#include "weft/base/divisors.h"

namespace weft {

std::vector<int> divisors(int number) {
  std::vector<int> small, large;
  for (int d = 1; d <= number / d; ++d) {
    if (number % d != 0) continue;
    small.push_back(d);
    if (d != number / d) large.push_back(number / d);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

}  // namespace weft
