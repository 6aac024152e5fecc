// The same picture gives the same bytes in any kind of PNG file.
#include "weft/data/images/png.h"

#include <gtest/gtest.h>
#include <png.h>

#include <string>
#include <vector>

#include "tests/data/images/image_files.h"
#include "weft/data/bad_data.h"
#include "weft/data/images/decode_image.h"

namespace weft {
namespace {

constexpr int64_t kHeight = 9, kWidth = 7;

struct Kind {
  std::string name;
  int depth = 8;
  bool tells_gamma = false, interlaced = false, has_opacity = false;
};

/// File of 1 or 3 channels; with opacity, the first pixel is transparent.
std::vector<uint8_t> file_of(const test::Pixels& pixels, int64_t channels, const Kind& kind) {
  std::vector<uint8_t> file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &file,
      [](png_structp p, png_bytep bytes, size_t count) {
        auto* out = static_cast<std::vector<uint8_t>*>(png_get_io_ptr(p));
        out->insert(out->end(), bytes, bytes + count);
      },
      [](png_structp) {});
  const int colour = (channels == 3 ? PNG_COLOR_MASK_COLOR : 0) | (kind.has_opacity ? PNG_COLOR_MASK_ALPHA : 0);
  png_set_IHDR(png, info, kWidth, kHeight, kind.depth, colour, kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (kind.tells_gamma) png_set_gAMA(png, info, 1.0);
  png_write_info(png, info);
  std::vector<std::vector<uint8_t>> rows(kHeight);
  std::vector<png_bytep> starts;
  for (int64_t y = 0; y < kHeight; ++y) {
    const auto add = [&](uint8_t value) {
      rows[y].push_back(value), rows[y].resize(rows[y].size() + kind.depth / 8 - 1, 0xff);
    };  // the low byte does not count
    for (int64_t x = 0; x < kWidth; ++x) {
      for (int64_t c = 0; c < channels; ++c) add(pixels[(y * kWidth + x) * channels + c]);
      if (kind.has_opacity) add(y + x == 0 ? 0 : 255);
    }
    starts.push_back(rows[y].data());
  }
  png_write_image(png, starts.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

TEST(Png, EveryKindOfFileGivesTheSamePixels) {
  for (const int64_t channels : {1, 3}) {
    const test::Pixels pixels = test::gradient(kHeight, kWidth, channels);
    for (const Kind& kind : {Kind{"8 bits"}, Kind{"16 bits", 16}, Kind{"gamma", 8, true}, Kind{"interlaced", 8, false, true},
                             Kind{"16 bits, interlaced, gamma", 16, true, true}, Kind{"opacity", 8, false, false, true},
                             Kind{"16 bits, opacity", 16, false, false, true}}) {
      const std::vector<uint8_t> file = file_of(pixels, channels, kind);
      const Picture picture = decode_png(file, {.channels = channels}, "it");
      EXPECT_EQ(picture.pixels, pixels) << kind.name << ", " << channels << " channels: opacity is dropped";
      test::Pixels expected = pixels;
      if (kind.has_opacity) std::fill_n(expected.begin(), channels, uint8_t{0});
      EXPECT_EQ(decode_png(file, {.channels = channels, .transparency = Transparency::on_black}, "it").pixels, expected);
      EXPECT_EQ(picture.height * 100 + picture.width * 10 + picture.channels, kHeight * 100 + kWidth * 10 + channels);
    }
  }
}

TEST(Png, ConvertsGreyAsJpegDoes) {
  test::Pixels orange;
  for (int64_t i = 0; i < 16 * 16; ++i) orange.insert(orange.end(), {200, 60, 20});
  const std::string png = test::png_of(orange, 16, 16, 3), jpeg = test::jpeg_of(orange, 16, 16, 3);
  const auto all = [](int64_t h, int64_t w) { return Crop{0, 0, h, w, h, w}; };
  const auto pixel = [&](const std::string& file) {
    return decode_image({file.begin(), file.end()}, {.channels = 1}, all, "it").picture.pixels.at(100);
  };
  EXPECT_EQ(pixel(png), 97);
  EXPECT_NEAR(pixel(jpeg), 97, 1);
  const Picture spread = decode_png(file_of(test::gradient(kHeight, kWidth, 1), 1, {}), {}, "it");
  for (size_t i = 0; i < spread.pixels.size(); ++i) EXPECT_EQ(spread.pixels[i], test::gradient(kHeight, kWidth, 1)[i / 3]);
}

TEST(Png, EveryTruncationIsReported) {
  const std::vector<uint8_t> file = file_of(test::gradient(kHeight, kWidth, 3), 3, {"interlaced", 8, false, true});
  size_t whole = 0;
  for (size_t bytes = 9; bytes < file.size(); ++bytes) {
    try {
      decode_png({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(bytes)}, {}, "it");
      ++whole;
    } catch (const BadDataError& error) {
      EXPECT_NE(std::string(error.what()).find("it: not a whole PNG image: "), std::string::npos) << error.what();
    }
  }
  EXPECT_LE(whole, 16) << "only the checksum and end mark after the pixels";
}

}  // namespace
}  // namespace weft
