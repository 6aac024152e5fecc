// JPEG files of every kind: inks, damage independent of the part requested, and orientation.
#include "weft/data/images/jpeg.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "tests/data/images/image_files.h"
#include "weft/data/bad_data.h"
#include "weft/data/images/decode_image.h"

namespace weft::jpeg_test {
namespace {

using test::gradient;
using test::JpegKind;
using test::Pixels;

Crop whole(int64_t height, int64_t width) { return {0, 0, height, width, height, width}; }

DecodedCrop decode(const std::string& file, const ImageDecoding& decoding, ChooseCrop choose = whole) {
  return decode_image({file.begin(), file.end()}, decoding, choose, "it");
}

/// Pillow 12's values for files with one colour of ink.
TEST(Jpeg, InksBecomeColoursAsInPillow) {
  struct Row {
    Pixels inks;  ///< as stored: inverted
    std::vector<int> colours;
    int grey;
  };
  for (const Row& row : {Row{{200, 100, 50, 180}, {141, 71, 35}, 88}, Row{{255, 255, 255, 255}, {255, 255, 255}, 255},
                         Row{{0, 128, 255, 255}, {0, 128, 255}, 104}, Row{{90, 90, 90, 0}, {0, 0, 0}, 0}}) {
    Pixels pixels;
    for (int i = 0; i < 16 * 16; ++i) pixels.insert(pixels.end(), row.inks.begin(), row.inks.end());
    for (const JpegKind& kind : {JpegKind{}, JpegKind{.ycck = true}, JpegKind{.progressive = true}}) {
      const std::string file = test::jpeg_of(pixels, 16, 16, 4, kind);
      const Picture colours = decode(file, {.channels = 3}).picture, grey = decode(file, {.channels = 1}).picture;
      ASSERT_EQ(colours.pixels.size(), 768U);
      ASSERT_EQ(grey.pixels.size(), 256U);
      for (int c = 0; c < 3; ++c) EXPECT_NEAR(colours.pixels[300 + c], row.colours[c], 2) << c << kind.ycck;
      EXPECT_NEAR(grey.pixels[100], row.grey, 2);
    }
  }
}

/// Noise over a gradient, so that its blocks have many coefficients.
Pixels rough(int64_t height, int64_t width) {
  Pixels pixels = gradient(height, width, 3);
  uint32_t state = 7;
  for (uint8_t& value : pixels) value = static_cast<uint8_t>(value + ((state = state * 1664525U + 1013904223U) >> 27));
  return pixels;
}

TEST(Jpeg, DamageIsIndependentOfThePartRead) {
  for (const JpegKind& kind : {JpegKind{}, JpegKind{.progressive = true}, JpegKind{.restart_rows = 1}}) {
    const std::string good = test::jpeg_of(rough(96, 80), 96, 80, 3, kind);
    std::vector<std::pair<std::string, std::string>> files = {{"good", good}, {"bytes behind it", good + "more"}};
    for (const size_t percent : {40, 60, 80, 90, 97, 99}) {
      files.emplace_back(fmt::format("cut to {} %", percent), good.substr(0, good.size() * percent / 100));
    }
    files.emplace_back("without its end mark", good.substr(0, good.size() - 2));
    for (const size_t percent : {30, 50, 70, 90}) {
      const size_t at = good.size() * percent / 100;
      files.emplace_back(fmt::format("zeros at {} %", percent), std::string(good).replace(at, 40, 40, '\0'));
      files.emplace_back(fmt::format("60 bytes less at {} %", percent), std::string(good).erase(at, 60));
      files.emplace_back(fmt::format("an end mark at {} %", percent), std::string(good).replace(at, 2, "\xff\xd9"));
    }
    for (const auto& [what, file] : files) {
      std::set<bool> verdicts;
      for (const Crop& crop : {Crop{0, 0, 96, 80, 96, 80}, Crop{0, 0, 10, 10, 10, 10}, Crop{80, 60, 16, 20, 16, 20},
                               Crop{40, 40, 20, 20, 20, 20}, Crop{0, 0, 96, 80, 12, 10}, Crop{0, 0, 48, 80, 24, 40}}) {
        try {
          decode(file, {}, [&crop](int64_t, int64_t) { return crop; });
          verdicts.insert(true);
        } catch (const BadDataError&) {
          verdicts.insert(false);
        }
      }
      EXPECT_EQ(verdicts.size(), 1U) << what;
      if (what.starts_with("cut") || what.starts_with("without")) {
        EXPECT_FALSE(verdicts.contains(true)) << what;
      }
      if (what == "good" || what.starts_with("bytes")) {
        EXPECT_TRUE(verdicts.contains(true)) << what;
      }
    }
  }
}

/// A TIFF file whose only entry is the orientation.
std::string exif_of(char orientation, bool big_endian) {
  const std::string little = {'I', 'I', '*', 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0, 0, 0, 0, 0};
  const std::string big = {'M', 'M', 0, '*', 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0, 0, 0, 0, 0};
  return big_endian ? big : little;
}

/// Upright position of the pixel stored at (y, x) of height x width, by the tag's definition (EXIF 2.3, 4.6.4).
std::pair<int64_t, int64_t> upright_place(int orientation, int64_t y, int64_t x, int64_t height, int64_t width) {
  const bool bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const int64_t row = bottom ? height - 1 - y : y, column = right ? width - 1 - x : x;
  return orientation >= 5 ? std::pair(column, row) : std::pair(row, column);
}

TEST(Jpeg, StandsUprightOnlyIfAskedTo) {
  const int64_t height = 48, width = 32;
  const Pixels pixels = gradient(height, width, 3);
  const Picture stored = decode(test::jpeg_of(pixels, height, width, 3), {}).picture;
  for (const bool big_endian : {false, true}) {
    for (int orientation = 0; orientation <= 9; ++orientation) {  // 0 and 9 are invalid
      SCOPED_TRACE(orientation);
      const std::string file =
          test::jpeg_of(pixels, height, width, 3, {.exif = exif_of(static_cast<char>(orientation), big_endian)});
      EXPECT_EQ(decode(file, {}).picture.pixels, stored.pixels);
      const Crop crop{3, 7, 20, 24, 20, 24};
      const DecodedCrop all = decode(file, {.upright = true});
      const DecodedCrop part = decode(file, {.upright = true}, [&](int64_t h, int64_t w) {
        EXPECT_EQ(std::pair(h, w),
                  (orientation >= 5 && orientation <= 8 ? std::pair(width, height) : std::pair(height, width)));
        return crop;
      });
      for (int64_t y = 0; y < height; ++y) {
        for (int64_t x = 0; x < width; ++x) {
          const auto [row, column] = upright_place(orientation == 9 ? 1 : orientation, y, x, height, width);
          ASSERT_EQ(all.picture.pixels[(row * all.picture.width + column) * 3], stored.pixels[(y * width + x) * 3]) << y << x;
        }
      }
      const auto top = static_cast<int64_t>(part.top), left = static_cast<int64_t>(part.left);
      for (int64_t y = 0; y < crop.height; ++y) {
        for (int64_t x = 0; x < crop.width; ++x) {
          ASSERT_NEAR(part.picture.pixels[((top + y) * part.picture.width + left + x) * 3],
                      all.picture.pixels[((crop.top + y) * all.picture.width + crop.left + x) * 3], 1);
        }
      }
    }
  }
}

TEST(Jpeg, TheOrientationMayHaveAnyIntegerType) {
  const std::string little = exif_of(6, false), big = exif_of(6, true);
  for (const char type : {1, 3, 4, 7}) {
    std::string one = little, other = big;
    one[12] = other[13] = type;
    if (type == 1) std::swap(other[18], other[19]);
    if (type == 4) std::swap(other[19], other[21]);
    for (const std::string& exif : {one, other}) {
      const std::string file = test::jpeg_of(gradient(8, 6, 3), 8, 6, 3, {.exif = exif});
      EXPECT_EQ(decode(file, {.upright = true}).picture.height, type == 7 ? 8 : 6) << static_cast<int>(type);
    }
  }
}

TEST(Jpeg, DamagedExifIsIgnored) {
  const std::string exif = exif_of(6, false);
  for (size_t bytes = 0; bytes < exif.size(); ++bytes) {
    const std::string file = test::jpeg_of(gradient(8, 6, 3), 8, 6, 3, {.exif = exif.substr(0, bytes)});
    EXPECT_NO_THROW(decode(file, {.upright = true})) << bytes;
  }
  std::string far = exif;
  far.replace(4, 4, "\xff\xff\xff\xff");
  EXPECT_EQ(decode(test::jpeg_of(gradient(8, 6, 3), 8, 6, 3, {.exif = far}), {.upright = true}).picture.height, 8);
}

}  // namespace
}  // namespace weft::jpeg_test
