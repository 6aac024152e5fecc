#include "weft/data/images/image_set.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <utility>

#include "weft/base/error.h"
#include "weft/data/images/resample.h"
#include "weft/data/images/sample_random.h"

namespace weft {

namespace {

/// Placement of an image on a sample: a part of it, shifted, perhaps mirrored.
struct Placing {
  Crop crop;
  int64_t top = 0, left = 0;  ///< position of the resized part on the sample; may be outside
  bool flip = false;
};

/// torchvision's RandomResizedCrop: up to ten tries, then the middle.
Crop random_part(int64_t height, int64_t width, const ImageSetOptions& o, SampleRandom& random) {
  const double least_area = o.augmentation.least_area;
  const double area = static_cast<double>(height * width);
  for (int i = 0; i < 10; ++i) {
    const double part = area * (least_area + (1.0 - least_area) * random.uniform());
    const double ratio = std::exp(std::log(3.0 / 4.0) + random.uniform() * std::log(16.0 / 9.0));
    const auto w = static_cast<int64_t>(std::llround(std::sqrt(part * ratio)));
    const auto h = static_cast<int64_t>(std::llround(std::sqrt(part / ratio)));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    return {random.below(height - h + 1), random.below(width - w + 1), h, w, o.height, o.width};
  }
  const auto fit = [](int64_t side, int64_t other) {
    return std::clamp<int64_t>(std::llround(static_cast<double>(other) * 4.0 / 3.0), 1, side);
  };
  const int64_t w = width > height ? fit(width, height) : width, h = height > width ? fit(height, width) : height;
  return {(height - h) / 2, (width - w) / 2, h, w, o.height, o.width};
}

/// Returns the whole image if it is no larger than a sample; otherwise its middle, with a sample's aspect ratio, as large as
/// fits or `middle` of that.
Crop middle_part(int64_t height, int64_t width, const ImageSetOptions& o) {
  if (height <= o.height && width <= o.width) return {0, 0, height, width, height, width};
  const double fit = std::min(static_cast<double>(height) / static_cast<double>(o.height),
                              static_cast<double>(width) / static_cast<double>(o.width));
  const double scale = fit > 1.0 ? std::max(1.0, o.middle * fit) : fit;
  const auto side = [scale](int64_t out, int64_t most) {
    return std::clamp<int64_t>(std::llround(scale * static_cast<double>(out)), 1, most);
  };
  const int64_t h = side(o.height, height), w = side(o.width, width);
  return {(height - h) / 2, (width - w) / 2, h, w, std::min(h, o.height), std::min(w, o.width)};
}

class ImageSet final : public Dataset, public FillsRows {
 public:
  ImageSet(std::shared_ptr<const ImageSource> source, const ImageSetOptions& options)
      : source_(std::move(source)),
        options_(options),
        scaled_(static_cast<size_t>(options.channels)),
        is_checked_(static_cast<size_t>(source_->size())) {
    for (size_t c = 0; c < scaled_.size(); ++c) {
      const double mean = options.mean[options.mean.size() == 1 ? 0 : c],
                   stddev = options.stddev[options.stddev.size() == 1 ? 0 : c];
      factor_.push_back(static_cast<float>(1.0 / (255.0 * stddev)));
      offset_.push_back(static_cast<float>(-mean / stddev));
      for (size_t i = 0; i < scaled_[c].size(); ++i) {
        scaled_[c][i] = static_cast<float>((static_cast<double>(i) / 255.0 - mean) / stddev);
      }
    }
  }

  int64_t size() const override { return source_->size(); }
  DataNotes left_out() const override { return source_->left_out(); }
  DataNotes passed_over() const override { return source_->passed_over(); }

  Batch get(const std::vector<int64_t>& indices, int64_t epoch) const override {
    Batch batch = make_rows(static_cast<int64_t>(indices.size()));
    for (size_t row = 0; row < indices.size(); ++row) {
      fill_row(indices[row], epoch, batch, static_cast<int64_t>(row), batch.skipped);
    }
    return batch;
  }

  Batch make_rows(int64_t count) const override {
    return {.inputs = {at::empty({count, options_.channels, options_.height, options_.width}, at::kFloat)},
            .target = at::empty({count}, at::kLong)};
  }

  void fill_row(int64_t index, int64_t epoch, Batch& rows, int64_t row, std::vector<std::string>& skipped) const override {
    if (index < 0 || index >= size()) {
      throw InputError(fmt::format("images: sample {} requested, but there are only {}", index, size()));
    }
    const int64_t numel = options_.channels * options_.height * options_.width;
    float* out = rows.inputs.front().mutable_data_ptr<float>() + row * numel;
    rows.target.mutable_data_ptr<int64_t>()[row] = fill(index, epoch, out, skipped);
  }

 private:
  /// Makes sample `index` from its image or, if that is bad, from another; returns its label.
  int64_t fill(int64_t index, int64_t epoch, float* out, std::vector<std::string>& skipped) const {
    constexpr int kMostTries = 100;  // that many in a row are no accident
    SampleRandom others(splitmix64(options_.seed), epoch, index);
    int64_t image = index;
    std::string last;
    for (int tries = 0; tries < kMostTries; ++tries, image = others.below(size())) {
      try {
        make(image, SampleRandom(options_.seed, epoch, index), out);
        return source_->label(image);
      } catch (const BadDataError& error) {
        last = error.what();
      }
      if (options_.bad == BadSample::refuse) throw InputError(fmt::format("{}; fix or remove it, {}", last, kOrSkip));
      skipped.push_back(source_->name(image));
      if (options_.bad == BadSample::replace) continue;
      std::fill(out, out + options_.channels * options_.height * options_.width, 0.0F);
      return kIgnore;
    }
    throw InputError(fmt::format("{} bad images in a row, the last: {}; check data.path", kMostTries, last));
  }

  void make(int64_t index, SampleRandom random, float* out) const {
    Placing placing;
    const DecodedCrop part = source_->decode(index, [&](int64_t height, int64_t width) {
      placing = place(height, width, random);
      placing.crop.checks_rest = !is_checked_[static_cast<size_t>(index)].load(std::memory_order_relaxed);
      return placing.crop;
    });
    is_checked_[static_cast<size_t>(index)].store(true, std::memory_order_relaxed);
    if (part.picture.channels != options_.channels && part.picture.channels != 1) {
      throw BadDataError(
          fmt::format("{}: {} channels, samples have {}", source_->name(index), part.picture.channels, options_.channels));
    }
    const Crop& crop = placing.crop;
    const bool as_it_is = crop.height == crop.out_height && crop.width == crop.out_width &&
                          part.height == static_cast<double>(crop.height) && part.width == static_cast<double>(crop.width);
    as_it_is ? copy(part, placing, out) : resize(part, placing, out);
  }

  Placing place(int64_t height, int64_t width, SampleRandom& random) const {
    const Augmentation& augmentation = options_.augmentation;
    Placing placing;
    if (augmentation.least_area > 0.0) {
      placing.crop = random_part(height, width, options_, random);
      placing.crop.alone = true;
    } else {
      placing.crop = middle_part(height, width, options_);
      placing.top = (options_.height - placing.crop.out_height) / 2;
      placing.left = (options_.width - placing.crop.out_width) / 2;
    }
    if (const int64_t padding = augmentation.crop_padding; padding > 0) {
      placing.top += random.below(2 * padding + 1) - padding;
      placing.left += random.below(2 * padding + 1) - padding;
    }
    if (augmentation.flip) placing.flip = random.below(2) == 1;
    return placing;
  }

  /// Copies pixel for pixel, by table.
  void copy(const DecodedCrop& part, const Placing& placing, float* out) const {
    const Picture& picture = part.picture;
    const int64_t width = options_.width;
    const auto top = static_cast<int64_t>(part.top), left = static_cast<int64_t>(part.left);
    const int64_t first = std::max<int64_t>(0, placing.left), last = std::min(width, placing.left + placing.crop.width);
    for (int64_t c = 0; c < options_.channels; ++c) {
      const std::array<float, 256>& scaled = scaled_[c];
      for (int64_t y = 0; y < options_.height; ++y, out += width) {
        const int64_t row = y - placing.top;
        std::fill(out, out + width, scaled[0]);
        if (row < 0 || row >= placing.crop.height) continue;
        const uint8_t* from =
            picture.pixels.data() + ((top + row) * picture.width + left) * picture.channels + (picture.channels == 1 ? 0 : c);
        for (int64_t x = first; x < last; ++x) {
          out[placing.flip ? width - 1 - x : x] = scaled[from[(x - placing.left) * picture.channels]];
        }
      }
    }
  }

  void resize(const DecodedCrop& part, const Placing& placing, float* out) const {
    const int64_t height = options_.height, width = options_.width, plane = part.out_height * part.out_width;
    const bool fills = placing.top == 0 && placing.left == 0 && part.out_height == height && part.out_width == width &&
                       part.picture.channels == options_.channels;
    std::vector<float> own(fills ? 0 : static_cast<size_t>(plane * part.picture.channels));
    float* made = fills ? out : own.data();
    resample_crop(part, placing.flip, made);
    const int64_t left = placing.flip ? width - part.out_width - placing.left : placing.left;
    for (int64_t c = 0; c < options_.channels; ++c) {
      const float factor = factor_[c], offset = offset_[c];
      float* to = out + c * height * width;
      if (fills) {
        for (int64_t i = 0; i < plane; ++i) to[i] = to[i] * factor + offset;
        continue;
      }
      const float* from = made + (part.picture.channels == 1 ? 0 : c * plane);
      std::fill(to, to + height * width, offset);
      for (int64_t y = 0; y < part.out_height; ++y) {
        if (y + placing.top < 0 || y + placing.top >= height) continue;
        for (int64_t x = std::max<int64_t>(0, -left); x < std::min(part.out_width, width - left); ++x) {
          to[(y + placing.top) * width + left + x] = from[y * part.out_width + x] * factor + offset;
        }
      }
    }
  }

  std::shared_ptr<const ImageSource> source_;
  const ImageSetOptions options_;
  std::vector<std::array<float, 256>> scaled_;         ///< by channel: value of each byte
  std::vector<float> factor_, offset_;                 ///< by channel: the same for a number in [0, 255]
  mutable std::vector<std::atomic<bool>> is_checked_;  ///< by image: its whole file was found good
};

void check(const ImageSetOptions& o) {
  const auto require = [](bool good, const std::string& message) {
    if (!good) throw InputError("images: " + message);
  };
  const auto fits = [&](const std::vector<double>& values) {
    return values.size() == 1 || static_cast<int64_t>(values.size()) == o.channels;
  };
  require(o.channels == 1 || o.channels == 3, fmt::format("{} channels; it must be 1 or 3", o.channels));
  for (const int64_t side : {o.height, o.width}) {
    require(side >= 1 && side <= 1 << 14, fmt::format("samples of {} pixels; it must be in [1, 16384]", side));
  }
  require(fits(o.mean) && fits(o.stddev),
          fmt::format("{} means and {} standard deviations for {} channels; give one, or one per channel", o.mean.size(),
                      o.stddev.size(), o.channels));
  for (const double stddev : o.stddev) require(stddev > 0, fmt::format("stddev = {}; it must be positive", stddev));
  require(o.augmentation.crop_padding >= 0 && o.augmentation.crop_padding < std::min(o.height, o.width),
          fmt::format("crop_padding = {}; it must be in [0, {})", o.augmentation.crop_padding, std::min(o.height, o.width)));
  require(o.augmentation.least_area >= 0 && o.augmentation.least_area <= 1,
          fmt::format("least_area = {}; it must be in [0, 1]", o.augmentation.least_area));
  require(o.middle > 0 && o.middle <= 1, fmt::format("middle = {}; it must be in (0, 1]", o.middle));
}

}  // namespace

std::shared_ptr<Dataset> open_image_set(std::shared_ptr<const ImageSource> source, const ImageSetOptions& options) {
  check(options);
  return std::make_shared<ImageSet>(std::move(source), options);
}

}  // namespace weft
