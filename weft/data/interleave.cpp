#include "weft/data/interleave.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <utility>

#include "weft/base/error.h"

namespace weft {
namespace {

/// floor(a b / c)
int64_t part_of(int64_t a, int64_t b, int64_t c) {
  return static_cast<int64_t>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b) /
                              static_cast<unsigned __int128>(c));
}

}  // namespace

Interleave::Interleave(std::vector<int64_t> weights) : weights_(std::move(weights)) {
  constexpr int64_t kMost = int64_t{1} << 62;
  for (const int64_t weight : weights_) {
    if (weight < 1 || weight >= kMost - total_) {
      throw InputError(fmt::format("mixture: a weight of {}; it must be at least 1, and the sum below 2^62", weight));
    }
    total_ += weight;
  }
  if (weights_.empty()) throw InputError("mixture: no sources are given");
}

// The first source takes floor(p w / total) of the first p positions; the rest is divided among the others likewise.
Interleave::Place Interleave::at(int64_t position) const {
  int64_t total = total_;
  for (size_t source = 0; source + 1 < weights_.size(); ++source) {
    const int64_t before = part_of(position, weights_[source], total);
    if (part_of(position + 1, weights_[source], total) > before) return {source, before};
    position -= before;
    total -= weights_[source];
  }
  return {weights_.size() - 1, position};
}

std::vector<int64_t> whole_weights(const std::vector<double>& shares) {
  constexpr double kDigits = 1e6, kLargest = 1e6, kRounding = 1e-3;  // relative to 1e12: far above a double's error
  std::vector<int64_t> weights;
  int64_t divisor = 0;
  for (const double share : shares) {
    const double whole = std::round(share * kDigits);
    if (!(share > 0.0 && share <= kLargest) || whole < 1.0 || std::abs(share * kDigits - whole) > kRounding) {
      throw InputError(
          fmt::format("mixture: a weight of {}; it must be in (0, 1e6], with at most six digits after the point", share));
    }
    weights.push_back(static_cast<int64_t>(whole));
    divisor = std::gcd(divisor, weights.back());
  }
  for (int64_t& weight : weights) weight /= divisor;
  return weights;
}

}  // namespace weft
