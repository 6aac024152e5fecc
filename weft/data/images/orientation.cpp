#include "weft/data/images/orientation.h"

#include <string_view>
#include <utility>

namespace weft {

namespace {

using Bytes = std::string_view;

uint32_t read_number(Bytes bytes, size_t at, size_t count, bool big_endian) {
  uint32_t value = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t place = big_endian ? i : count - 1 - i;
    value = value << 8 | static_cast<uint8_t>(bytes[at + place]);
  }
  return value;
}

/// Orientation, 1 to 8, in the first directory of EXIF data, which is a TIFF file; 1 if absent.
uint32_t in_tiff(Bytes tiff) {
  constexpr size_t kEntryBytes = 12;
  constexpr uint32_t kOrientation = 0x0112;
  if (tiff.size() < 8) return 1;
  const bool big = tiff.starts_with(Bytes("MM\0*", 4));
  if (!big && !tiff.starts_with(Bytes("II*\0", 4))) return 1;
  const size_t folder = read_number(tiff, 4, 4, big);
  if (folder > tiff.size() - 2) return 1;
  const size_t entries = read_number(tiff, folder, 2, big);
  for (size_t i = 0, at = folder + 2; i < entries && at + kEntryBytes <= tiff.size(); ++i, at += kEntryBytes) {
    const uint32_t type = read_number(tiff, at + 2, 2, big);  // BYTE, SHORT or LONG
    if (read_number(tiff, at, 2, big) != kOrientation || (type != 1 && type != 3 && type != 4)) continue;
    const uint32_t value = read_number(tiff, at + 8, type == 3 ? 2 : type, big);
    return value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}

Bytes exif_of_jpeg(Bytes file) {
  constexpr Bytes kExif("Exif\0\0", 6);
  for (size_t at = 2; at + 4 <= file.size() && file[at] == '\xff';) {
    const auto marker = static_cast<uint8_t>(file[at + 1]);
    if (marker == 0xff) {  // a fill byte
      ++at;
      continue;
    }
    if (marker == 0xda || marker == 0xd9) return {};  // pixels or nothing follow
    const size_t bytes = read_number(file, at + 2, 2, true);
    if (bytes < 2 || at + 2 + bytes > file.size()) return {};
    const Bytes segment = file.substr(at + 4, bytes - 2);
    if (marker == 0xe1 && segment.starts_with(kExif)) return segment.substr(kExif.size());
    at += 2 + bytes;
  }
  return {};
}

Bytes exif_of_png(Bytes file) {
  constexpr size_t kFrame = 12;  // length, name, check sum
  for (size_t at = 8; at + kFrame <= file.size();) {
    const size_t bytes = read_number(file, at, 4, true);
    if (bytes > file.size() - at - kFrame) return {};
    if (file.substr(at + 4, 4) == "eXIf") return file.substr(at + 8, bytes);
    at += kFrame + bytes;
  }
  return {};
}

}  // namespace

Orientation orientation_of(const std::vector<uint8_t>& file) {
  const Bytes bytes(reinterpret_cast<const char*>(file.data()), file.size());
  switch (in_tiff(bytes.starts_with("\xff\xd8") ? exif_of_jpeg(bytes) : exif_of_png(bytes))) {
    case 2:
      return {.flips_columns = true};
    case 3:
      return {.flips_rows = true, .flips_columns = true};
    case 4:
      return {.flips_rows = true};
    case 5:
      return {.transposed = true};
    case 6:
      return {.flips_rows = true, .transposed = true};
    case 7:
      return {.flips_rows = true, .flips_columns = true, .transposed = true};
    case 8:
      return {.flips_columns = true, .transposed = true};
    default:
      return {};
  }
}

Crop as_stored(const Crop& crop, int64_t height, int64_t width, const Orientation& orientation) {
  Crop stored = crop;
  if (orientation.transposed) {
    std::swap(stored.top, stored.left);
    std::swap(stored.height, stored.width);
    std::swap(stored.out_height, stored.out_width);
  }
  if (orientation.flips_rows) stored.top = height - stored.top - stored.height;
  if (orientation.flips_columns) stored.left = width - stored.left - stored.width;
  return stored;
}

DecodedCrop turn_upright(DecodedCrop part, const Orientation& orientation) {
  const Picture& from = part.picture;
  Picture to{.height = orientation.transposed ? from.width : from.height,
             .width = orientation.transposed ? from.height : from.width,
             .channels = from.channels,
             .pixels = std::vector<uint8_t>(from.pixels.size())};
  for (int64_t y = 0; y < from.height; ++y) {
    const int64_t row = orientation.flips_rows ? from.height - 1 - y : y;
    for (int64_t x = 0; x < from.width; ++x) {
      const int64_t column = orientation.flips_columns ? from.width - 1 - x : x;
      const int64_t place = orientation.transposed ? column * to.width + row : row * to.width + column;
      for (int64_t c = 0; c < from.channels; ++c) {
        to.pixels[place * to.channels + c] = from.pixels[(y * from.width + x) * from.channels + c];
      }
    }
  }
  if (orientation.flips_rows) part.top = static_cast<double>(from.height) - part.top - part.height;
  if (orientation.flips_columns) part.left = static_cast<double>(from.width) - part.left - part.width;
  if (orientation.transposed) {
    std::swap(part.top, part.left);
    std::swap(part.height, part.width);
    std::swap(part.out_height, part.out_width);
  }
  part.picture = std::move(to);
  return part;
}

}  // namespace weft
