// What device kernels compute of one run or element: compiled by g++ for the CPU's path and the checked device, and by nvcc.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "weft/base/host_device.h"
#include "weft/base/philox.h"

namespace weft {

inline constexpr int kSquareLanes = 8;  ///< running sums of a run's squares

/// Sum of the squares of elements lane, lane + 8, ... of a run of `numel`, in float64.
template <class Element>
WEFT_HOST_DEVICE double squares_of_lane(const Element* run, int64_t numel, int lane) {
  double sum = 0.0;
  for (int64_t i = lane; i < numel; i += kSquareLanes) {
    const auto value = static_cast<double>(run[i]);
    sum += value * value;
  }
  return sum;
}

/// Sum of a run's squares: lane by lane, so that every implementation has the same bits.
template <class Element>
WEFT_HOST_DEVICE double squares_of_run(const Element* run, int64_t numel) {
  double total = 0.0;
  for (int lane = 0; lane < kSquareLanes; ++lane) total += squares_of_lane(run, numel, lane);
  return total;
}

/// A range of elements cut into runs that end at multiples of `run` elements from where the range's `before` precede it.
struct Runs {
  int64_t numel = 0;   ///< elements of the range
  int64_t before = 0;  ///< elements of the first run that come before the range; less than `run`
  int64_t run = 0;     ///< elements of a run

  /// Number of runs.
  WEFT_HOST_DEVICE int64_t count() const { return numel == 0 ? 0 : (before + numel + run - 1) / run; }
  /// First element of run i, in the range.
  WEFT_HOST_DEVICE int64_t begin(int64_t i) const { return i == 0 ? 0 : i * run - before; }
  /// Element after the last of run i, in the range.
  WEFT_HOST_DEVICE int64_t end(int64_t i) const {
    const int64_t end = (i + 1) * run - before;
    return end < numel ? end : numel;
  }
};

/// Bits of a magnitude as float32, which order like magnitudes; not finite: 0x7f800000 and more.
template <class Element>
WEFT_HOST_DEVICE int64_t magnitude_bits(Element value) {
  const auto wide = static_cast<float>(value);
  uint32_t bits = 0;
  memcpy(&bits, &wide, sizeof bits);
  return static_cast<int64_t>(bits & 0x7fffffffu);
}

/// Losses of a step, [3, places] float64: sums, counts, nominal targets.
struct LossPlace {
  double* losses = nullptr;
  int64_t places = 0;
  int64_t place = 0;
  double nominal = 0.0;

  WEFT_HOST_DEVICE void put(double sum, double count) const {
    losses[place] = sum;
    losses[places + place] = count;
    losses[2 * places + place] = nominal;
  }
};

inline constexpr int64_t kNoId = INT64_MAX;  ///< above every noted id

/// The two numbers that note an id at a position below 2^31: the smallest of each are of the first position.
struct NotedId {
  int64_t low = 0, high = 0;

  WEFT_HOST_DEVICE NotedId(int64_t position, int64_t id)
      : low(position << 32 | static_cast<int64_t>(static_cast<uint64_t>(id) & 0xffffffff)),
        high(position << 32 | static_cast<int64_t>(static_cast<uint64_t>(id) >> 32)) {}
};

/// An id as it may be looked up.
WEFT_HOST_DEVICE inline int64_t clamped_id(int64_t id, int64_t count, bool has_ignored, int64_t ignored) {
  if (has_ignored && id == ignored) return id;
  return id < 0 ? 0 : id < count ? id : count - 1;
}

/// What dropout and initial values know of a stream.
struct Stream {
  uint64_t seed = 0, stream = 0;
};

/// A stream of dropout, whose step and first sample the host knows, or a kernel reads where the device keeps them.
struct PlacedStream {
  Stream known;                    ///< with a place: `stream` is that of the name (stream_at())
  const int64_t* place = nullptr;  ///< [2]: step, first sample; null: `known` holds for the step
  int64_t per_sample = 0;          ///< elements of a sample: indices count from those of the first sample
};
WEFT_HOST_DEVICE inline Stream stream_now(const PlacedStream& of) {
  return of.place == nullptr ? of.known : Stream{of.known.seed, stream_at(of.known.stream, of.place[0])};
}
WEFT_HOST_DEVICE inline int64_t first_now(const PlacedStream& of) {
  return of.place == nullptr ? 0 : of.place[1] * of.per_sample;
}

/// Element `i` of a stream, dropped or scaled.
template <class Element>
WEFT_HOST_DEVICE Element dropped_or_scaled(Element x, const Stream& of, int64_t i, uint32_t threshold, bool all, double scale) {
  using Wide = std::conditional_t<std::is_same_v<Element, double>, double, float>;
  const bool is_dropped = all || random_word(of.seed, of.stream, i) < threshold;
  return static_cast<Element>(is_dropped ? Wide(0) : static_cast<Wide>(x) * static_cast<Wide>(scale));
}

/// Element `i` of a stream of normal or uniform numbers.
WEFT_HOST_DEVICE inline float drawn_number(bool is_normal, const Stream& of, int64_t i, float shift, float scale) {
  return shift + scale * (is_normal ? random_normal(of.seed, of.stream, i) : uniform_of(random_word(of.seed, of.stream, i)));
}

}  // namespace weft
