#include "weft/comm/audit/element.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace weft {
namespace {

template <class T>
T as(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

template <class T>
uint64_t bits_of(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

/// The ranks' tree: tree(lo, hi) = tree(lo, mid) + tree(mid, hi) (comm/group.h).
template <class Sum, class T>
Sum tree_sum(const std::vector<T>& parts, size_t lo, size_t hi) {
  if (hi - lo == 1) return static_cast<Sum>(parts[lo]);
  const size_t mid = lo + std::bit_floor(hi - lo - 1);
  return tree_sum<Sum>(parts, lo, mid) + tree_sum<Sum>(parts, mid, hi);
}

/// `order` 0: the tree; k: a ring from rank k - 1 on.
template <class Sum, class T>
uint64_t sum_in(const std::vector<T>& parts, size_t order) {
  if (order == 0) return bits_of(static_cast<T>(tree_sum<Sum>(parts, 0, parts.size())));
  T sum = parts[order - 1];
  for (size_t i = 1; i < parts.size(); ++i) {
    sum = static_cast<T>(static_cast<Sum>(sum) + static_cast<Sum>(parts[(order - 1 + i) % parts.size()]));
  }
  return bits_of(sum);
}

/// Calls with the parts in their type, and the type to add in.
template <class Call>
auto with_parts(const std::vector<uint64_t>& parts, at::ScalarType dtype, const Call& call) {
  const auto typed = [&](auto zero, auto sum) {
    std::vector<decltype(zero)> values;
    values.reserve(parts.size());
    for (const uint64_t bits : parts) values.push_back(as<decltype(zero)>(bits));
    return call(values, sum);
  };
  switch (dtype) {
    case at::kDouble:
      return typed(0.0, 0.0);
    case at::kBFloat16:
      return typed(c10::BFloat16(), 0.0F);
    case at::kHalf:
      return typed(c10::Half(), 0.0F);
    case at::kLong:
      return typed(uint64_t{0}, uint64_t{0});
    case at::kInt:
      return typed(uint32_t{0}, uint32_t{0});
    default:
      return typed(0.0F, 0.0F);
  }
}

/// The orders in which the parts give the sum.
std::vector<size_t> orders_of(const std::vector<uint64_t>& parts, uint64_t sum, at::ScalarType dtype) {
  return with_parts(parts, dtype, [&](const auto& values, auto zero) {
    std::vector<size_t> orders;
    for (size_t order = 0; order <= values.size(); ++order) {
      if (sum_in<decltype(zero)>(values, order) == sum) orders.push_back(order);
    }
    return orders;
  });
}

}  // namespace

uint64_t element_bits(const at::Tensor& tensor, int64_t index) {
  const size_t size = tensor.element_size();
  uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(tensor.const_data_ptr()) + static_cast<size_t>(index) * size,
              std::min(size, sizeof(bits)));
  return bits;
}

double element_value(uint64_t bits, at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return as<float>(bits);
    case at::kDouble:
      return as<double>(bits);
    case at::kBFloat16:
      return static_cast<float>(as<c10::BFloat16>(bits));
    case at::kHalf:
      return static_cast<float>(as<c10::Half>(bits));
    case at::kLong:
      return static_cast<double>(as<int64_t>(bits));
    case at::kInt:
      return as<int32_t>(bits);
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

std::string element_text(uint64_t bits, at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return fmt::format("{}", as<float>(bits));
    case at::kDouble:
      return fmt::format("{}", as<double>(bits));
    case at::kBFloat16:
    case at::kHalf:
      return fmt::format("{:.5g}", element_value(bits, dtype));
    case at::kLong:
      return std::to_string(as<int64_t>(bits));
    case at::kInt:
      return std::to_string(as<int32_t>(bits));
    default:
      return fmt::format("0x{:x}", bits);
  }
}

int64_t first_difference(const at::Tensor& a, const at::Tensor& b) {
  const auto *x = static_cast<const char*>(a.const_data_ptr()), *y = static_cast<const char*>(b.const_data_ptr());
  const size_t bytes = a.nbytes();
  if (bytes == 0 || std::memcmp(x, y, bytes) == 0) return -1;
  return static_cast<int64_t>(static_cast<size_t>(std::mismatch(x, x + bytes, y).first - x) / a.element_size());
}

double rounding_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return std::numeric_limits<float>::epsilon();
    case at::kDouble:
      return std::numeric_limits<double>::epsilon();
    case at::kBFloat16:
      return 0x1p-7;
    case at::kHalf:
      return 0x1p-10;
    default:
      return 0.0;
  }
}

bool adds_up(const std::vector<uint64_t>& parts, uint64_t sum, at::ScalarType dtype) {
  return !orders_of(parts, sum, dtype).empty();
}

std::vector<FlippedBit> explain(const std::vector<uint64_t>& parts, uint64_t right, uint64_t sum, at::ScalarType dtype) {
  std::vector<FlippedBit> found;
  const std::vector<size_t> orders = orders_of(parts, right, dtype);
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    for (int bit = 0; bit < 8 * static_cast<int>(c10::elementSize(dtype)); ++bit) {
      std::vector<uint64_t> changed = parts;
      changed[rank] ^= uint64_t{1} << bit;
      const std::vector<size_t> gives = orders_of(changed, sum, dtype);
      const auto agrees = [&](size_t order) { return std::find(gives.begin(), gives.end(), order) != gives.end(); };
      if (std::any_of(orders.begin(), orders.end(), agrees)) found.push_back({static_cast<int>(rank), changed[rank], bit});
    }
  }
  return found;
}

}  // namespace weft
