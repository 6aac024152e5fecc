#include <algorithm>
#include <numeric>

#include "weft/checked_device/memory.h"

namespace weft::checked_device {

namespace {
constexpr size_t kMostRanges = 1 << 16;  ///< with more, the range around all
}

std::vector<ByteRange> ranges_of(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return {};
  // Dimensions by stride; those that continue the run before them make it longer.
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) > 1 && tensor.stride(d) != 0) dims.emplace_back(tensor.stride(d), tensor.size(d));
  }
  std::sort(dims.begin(), dims.end());
  int64_t run = 1;
  size_t outer = 0;
  while (outer < dims.size() && dims[outer].first <= run) {  // also windows that overlap, as unfold()'s
    run += dims[outer].first * (dims[outer].second - 1);
    ++outer;
  }
  const int64_t first = elements_before(tensor) + tensor.storage_offset();
  int64_t count = 1, last = first + run - 1;
  for (size_t d = outer; d < dims.size(); ++d) {
    count *= dims[d].second;
    last += dims[d].first * (dims[d].second - 1);
  }
  const auto bytes = static_cast<int64_t>(tensor.element_size());
  const auto range = [&](int64_t begin, int64_t end) {
    return ByteRange{static_cast<size_t>(begin * bytes), static_cast<size_t>(end * bytes)};
  };
  if (static_cast<size_t>(count) > kMostRanges) return {range(first, last + 1)};
  std::vector<int64_t> begins{first};
  for (size_t d = outer; d < dims.size(); ++d) {
    const size_t before = begins.size();
    for (int64_t i = 1; i < dims[d].second; ++i) {
      for (size_t k = 0; k < before; ++k) begins.push_back(begins[k] + i * dims[d].first);
    }
  }
  std::sort(begins.begin(), begins.end());
  std::vector<ByteRange> ranges;
  for (const int64_t begin : begins) {
    const ByteRange next = range(begin, begin + run);
    if (!ranges.empty() && next.begin <= ranges.back().end) {
      ranges.back().end = std::max(ranges.back().end, next.end);
    } else {
      ranges.push_back(next);
    }
  }
  return ranges;
}

}  // namespace weft::checked_device
