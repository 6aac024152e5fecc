#include "weft/base/target_device.h"

#include <numeric>

#include "weft/base/math.h"

namespace weft {

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGranule = 512;
constexpr int64_t kMostSmall = kMiB;             // in small segments
constexpr int64_t kLeastOwnSegment = 10 * kMiB;  // with a segment of its own
constexpr int64_t kSmallSegment = 2 * kMiB;
constexpr int64_t kLargeSegment = 20 * kMiB;
constexpr int64_t kSegmentStep = 2 * kMiB;
constexpr int64_t kMostUnsplit = kMiB;  // rest of a segment that stays with the request

}  // namespace

int64_t allocated_bytes(TargetDevice device, int64_t bytes) {
  if (device == TargetDevice::cpu) return bytes;
  const int64_t rounded = round_up(bytes, kGranule), segment = round_up(rounded, kSegmentStep);
  return rounded >= kLeastOwnSegment && segment - rounded <= kMostUnsplit ? segment : rounded;
}

int64_t reserved_bytes(TargetDevice device, const std::vector<int64_t>& requests) {
  if (device == TargetDevice::cpu) return std::accumulate(requests.begin(), requests.end(), int64_t{0});
  int64_t small = 0, large = 0, own = 0;
  for (const int64_t request : requests) {
    const int64_t bytes = round_up(request, kGranule);
    if (bytes <= kMostSmall) {
      small += bytes;
    } else if (bytes < kLeastOwnSegment) {
      large += bytes;
    } else {
      own += round_up(bytes, kSegmentStep);
    }
  }
  return round_up(small, kSmallSegment) + round_up(large, kLargeSegment) + own;
}

}  // namespace weft
