#include "weft/data/images/decode_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include "weft/data/bad_data.h"
#include "weft/data/images/jpeg.h"
#include "weft/data/images/orientation.h"
#include "weft/data/images/png.h"

namespace weft {

namespace {

/// Names the kind of a file that is neither JPEG nor PNG, from its first bytes.
std::string image_kind(const std::vector<uint8_t>& file) {
  const std::string_view begin(reinterpret_cast<const char*>(file.data()), std::min<size_t>(file.size(), 32));
  const auto has = [&](size_t at, std::string_view text) { return begin.size() >= at && begin.substr(at).starts_with(text); };
  if (file.empty()) return "an empty file";
  const char* kind = nullptr;
  if (has(0, "RIFF") && has(8, "WEBP")) kind = "WebP";
  if (has(0, "GIF8")) kind = "GIF";
  if (has(0, "BM")) kind = "BMP";
  if (has(0, "II*") || has(0, std::string_view("MM\0*", 4))) kind = "TIFF";
  if (has(4, "ftypavi")) kind = "AVIF";
  if (has(4, "ftyphei") || has(4, "ftypmif1")) kind = "HEIC";
  if (has(4, "jP  ") || has(0, "\xff\x4f\xff\x51")) kind = "JPEG 2000";
  if (has(0, "version https://git-lfs")) return "a Git LFS pointer, not an image; get the files themselves (git lfs pull)";
  if (has(0, "<!DOCTYPE") || has(0, "<!doctype") || has(0, "<html")) return "an HTML page, not an image";
  if (kind == nullptr) return "neither a JPEG nor a PNG image";
  return fmt::format("neither a JPEG nor a PNG image, but {}, which weft does not read; convert it", kind);
}

DecodedCrop decode_as_stored(const std::vector<uint8_t>& file, const ImageDecoding& decoding, ChooseCrop choose,
                             const std::string& name) {
  if (is_jpeg(file)) return decode_jpeg(file, decoding.channels, choose, name);
  if (is_png(file)) return crop_picture(decode_png(file, decoding, name), choose);
  throw BadDataError(fmt::format("{}: {}", name, image_kind(file)));
}

}  // namespace

bool is_image_ending(std::string_view ending) {
  static constexpr std::array<std::string_view, 5> kEndings = {"jpg", "jpeg", "jfif", "jpe", "png"};
  return std::find(kEndings.begin(), kEndings.end(), lower_case(ending)) != kEndings.end();
}

bool is_other_image_ending(std::string_view ending) {
  static constexpr std::array<std::string_view, 15> kEndings = {"webp", "bmp", "gif", "tif", "tiff", "avif", "heic", "heif",
                                                                "ppm",  "pgm", "jp2", "j2k", "jxl",  "tga",  "svg"};
  return std::find(kEndings.begin(), kEndings.end(), lower_case(ending)) != kEndings.end();
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

DecodedCrop decode_image(const std::vector<uint8_t>& file, const ImageDecoding& decoding, ChooseCrop choose,
                         const std::string& name) {
  const Orientation orientation = decoding.upright ? orientation_of(file) : Orientation();
  if (orientation.is_upright()) return decode_as_stored(file, decoding, choose, name);
  const auto stored = [&](int64_t height, int64_t width) {
    const bool lies = orientation.transposed;
    return as_stored(choose(lies ? width : height, lies ? height : width), height, width, orientation);
  };
  return turn_upright(decode_as_stored(file, decoding, stored, name), orientation);
}

DecodedCrop crop_picture(Picture picture, ChooseCrop choose) {
  const Crop crop = choose(picture.height, picture.width);
  return {.picture = std::move(picture),
          .top = static_cast<double>(crop.top),
          .left = static_cast<double>(crop.left),
          .height = static_cast<double>(crop.height),
          .width = static_cast<double>(crop.width),
          .out_height = crop.out_height,
          .out_width = crop.out_width,
          .alone = crop.alone};
}

}  // namespace weft
