#include "weft/exported/split_form.h"

#include <functional>
#include <numeric>

namespace weft {

/// In the order of elements there are `rest` segments of equal length: dimensions before the divided one repeat those within
/// it. The divided dimension of the other shape is the first that is longer than the segments left to its place.
std::optional<SplitForm> reshaped(const SplitForm& form, const WholeShape& from, const WholeShape& to) {
  int64_t rest = std::accumulate(from.begin(), from.begin() + form.dim, form.segments, std::multiplies<>());
  for (size_t dim = 0; dim < to.size(); ++dim) {
    if (to[dim] < 1) return {};
    if (rest % to[dim] == 0) {
      rest /= to[dim];
      continue;
    }
    if (to[dim] % rest != 0) return {};
    SplitForm result = form;
    result.dim = static_cast<int64_t>(dim);
    result.segments = rest;
    return result;
  }
  return {};
}

int SplitSources::add(int64_t divisible) {
  parents_.push_back(static_cast<int>(parents_.size()));
  most_.push_back(divisible);
  return parents_.back();
}

int SplitSources::root(int source) const {
  while (parents_[static_cast<size_t>(source)] != source) source = parents_[static_cast<size_t>(source)];
  return source;
}

int SplitSources::join(int a, int b) {
  const int to = root(a), from = root(b);
  parents_[static_cast<size_t>(from)] = to;
  divide(to, most_[static_cast<size_t>(from)]);
  return to;
}

void SplitSources::divide(int source, int64_t divisible) {
  int64_t& most = most_[static_cast<size_t>(root(source))];
  most = std::gcd(most, divisible);
}

}  // namespace weft
