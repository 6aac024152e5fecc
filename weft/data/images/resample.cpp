#include "weft/data/images/resample.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace weft {

namespace {

/// Input pixels of each output pixel, and their weights.
struct Taps {
  std::vector<int64_t> first;  ///< by output pixel
  std::vector<float> weights;  ///< [pixels, count]
  int64_t count = 0;           ///< per output pixel, including those of weight zero
};

/// Share of a pixel that lies in [begin, end).
double share_within(int64_t pixel, double begin, double end) {
  const auto from = static_cast<double>(pixel);
  return std::max(0.0, std::min(from + 1.0, end) - std::max(from, begin));
}

/// Computes `out` pixels from [begin, begin + length) of a picture of size `limit`.
Taps make_taps(double begin, double length, int64_t out, int64_t limit, bool alone) {
  const double scale = length / static_cast<double>(out), support = std::max(1.0, scale);
  Taps taps;
  taps.count = std::min(limit, static_cast<int64_t>(std::ceil(2.0 * support)) + 1);
  taps.first.resize(static_cast<size_t>(out));
  taps.weights.assign(static_cast<size_t>(out * taps.count), 0.0F);
  for (int64_t i = 0; i < out; ++i) {
    const double centre = begin + (static_cast<double>(i) + 0.5) * scale;
    const auto lowest = static_cast<int64_t>(std::floor(centre - support + 0.5));
    const int64_t first = std::clamp<int64_t>(lowest, 0, limit - taps.count);
    double total = 0.0;
    std::vector<double> weights(static_cast<size_t>(taps.count));
    for (int64_t k = 0; k < taps.count; ++k) {
      const double distance = (static_cast<double>(first + k) + 0.5 - centre) / support;
      weights[k] = std::max(0.0, 1.0 - std::abs(distance));
      if (alone) weights[k] *= share_within(first + k, begin, begin + length);
      total += weights[k];
    }
    taps.first[i] = first;
    for (int64_t k = 0; k < taps.count; ++k) taps.weights[i * taps.count + k] = static_cast<float>(weights[k] / total);
  }
  return taps;
}

void add_row(const uint8_t* from, float weight, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] += weight * static_cast<float>(from[i]);
}

/// Resamples a row of the picture, with adjacent channels and space for `kLanes` - channels more values, into a row of each
/// plane. The extra lanes let the compiler use one instruction for all lanes.
template <int64_t kChannels, int64_t kLanes>
void make_row(const float* from, const Taps& taps, int64_t width, int64_t plane, bool flip, float* out) {
  for (int64_t x = 0; x < width; ++x) {
    const float* weights = taps.weights.data() + x * taps.count;
    const float* pixel = from + taps.first[x] * kChannels;
    std::array<float, kLanes> sums = {};
    for (int64_t k = 0; k < taps.count; ++k) {
      for (int64_t c = 0; c < kLanes; ++c) sums[c] += weights[k] * pixel[k * kChannels + c];
    }
    float* to = out + (flip ? width - 1 - x : x);
    for (int64_t c = 0; c < kChannels; ++c) to[c * plane] = sums[c];
  }
}

}  // namespace

void resample_crop(const DecodedCrop& crop, bool flip, float* out) {
  const Picture& picture = crop.picture;
  const Taps rows = make_taps(crop.top, crop.height, crop.out_height, picture.height, crop.alone);
  const Taps columns = make_taps(crop.left, crop.width, crop.out_width, picture.width, crop.alone);
  const int64_t row_bytes = picture.width * picture.channels;
  std::vector<float> row(static_cast<size_t>(row_bytes + 1));
  for (int64_t y = 0; y < crop.out_height; ++y) {
    std::fill(row.begin(), row.end(), 0.0F);
    for (int64_t k = 0; k < rows.count; ++k) {
      const float weight = rows.weights[y * rows.count + k];
      if (weight != 0.0F) add_row(picture.pixels.data() + (rows.first[y] + k) * row_bytes, weight, row_bytes, row.data());
    }
    const auto make = picture.channels == 1 ? make_row<1, 1> : make_row<3, 4>;
    make(row.data(), columns, crop.out_width, crop.out_height * crop.out_width, flip, out + y * crop.out_width);
  }
}

}  // namespace weft
