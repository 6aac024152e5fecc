// Image files made in memory.
#pragma once

#include <cstdio>

// After <cstdio>, whose types it uses.
#include <jpeglib.h>
#include <png.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace weft::test {

/// Adjacent pixels, [height, width, channels].
using Pixels = std::vector<uint8_t>;

/// A smooth picture that differs in each corner and channel.
inline Pixels gradient(int64_t height, int64_t width, int64_t channels) {
  Pixels pixels;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < channels; ++c) pixels.push_back(static_cast<uint8_t>(150 * y / height + 40 * x / width + 20 * c));
    }
  }
  return pixels;
}

/// Options for writing a JPEG file.
struct JpegKind {
  bool ycck = false;         ///< four channels as brightness, colour and black; otherwise as inks
  bool progressive = false;  ///< in several scans
  int restart_rows = 0;      ///< rows of blocks between restart marks; 0: no marks
  std::string exif = {};     ///< a TIFF file
};

/// One channel is grey, three are colours, four are inks, inverted as Adobe stores them.
inline std::string jpeg_of(const Pixels& pixels, int64_t height, int64_t width, int64_t channels, const JpegKind& kind = {}) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = static_cast<int>(channels);
  info.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  if (kind.ycck) jpeg_set_colorspace(&info, JCS_YCCK);
  jpeg_set_quality(&info, 95, TRUE);
  if (kind.progressive) jpeg_simple_progression(&info);
  info.restart_in_rows = kind.restart_rows;
  jpeg_start_compress(&info, TRUE);
  if (!kind.exif.empty()) {
    const std::string exif = std::string("Exif\0\0", 6) + kind.exif;
    jpeg_write_marker(&info, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(exif.data()),
                      static_cast<unsigned int>(exif.size()));
  }
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<uint8_t*>(pixels.data()) + info.next_scanline * width * channels;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string out(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return out;
}

inline std::string png_of(const Pixels& pixels, int64_t height, int64_t width, int64_t channels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, nullptr);
  std::string out(size, '\0');
  png_image_write_to_memory(&image, out.data(), &size, 0, pixels.data(), 0, nullptr);
  out.resize(size);
  return out;
}

}  // namespace weft::test
