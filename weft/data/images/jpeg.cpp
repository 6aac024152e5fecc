#include "weft/data/images/jpeg.h"

#include <fmt/format.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>

// After <cstdio>, whose types they use.
#include <jerror.h>
#include <jpeglib.h>

#include "weft/base/error.h"
#include "weft/data/bad_data.h"

namespace weft {

namespace {

/// Error handling for libjpeg, which is C: a long jump. No object with a destructor is made between setjmp and the jump.
struct ErrorJump {
  jpeg_error_mgr manager;
  std::jmp_buf place;
  char message[JMSG_LENGTH_MAX];
  bool is_memory;  ///< lack of memory in this process, not damage of the file
};

[[noreturn]] void jump_out(j_common_ptr info) {
  auto* errors = reinterpret_cast<ErrorJump*>(info->err);
  errors->is_memory = info->err->msg_code == JERR_OUT_OF_MEMORY;
  info->err->format_message(info, errors->message);
  std::longjmp(errors->place, 1);
}

/// Warnings are about damaged data. A file that ends too early or has bad codes is an error; other warnings are ignored, as
/// other readers do.
void warn(j_common_ptr info, int level) {
  if (level >= 0) return;
  const int code = info->err->msg_code;
  if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE) jump_out(info);
}

/// Decompressor and its errors.
struct Decoder {
  jpeg_decompress_struct info{};
  ErrorJump errors{};

  Decoder() {
    info.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = jump_out;
    errors.manager.emit_message = warn;
    jpeg_create_decompress(&info);
  }
  ~Decoder() { jpeg_destroy_decompress(&info); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
};

bool read_header(Decoder& decoder, const uint8_t* data, size_t bytes) {
  if (setjmp(decoder.errors.place) != 0) return false;
  jpeg_mem_src(&decoder.info, data, bytes);
  jpeg_read_header(&decoder.info, TRUE);
  return true;
}

bool is_ink(const jpeg_decompress_struct& info) {
  return info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
}

/// Scale of decoding in eighths: the smallest power of two that still has the requested pixels.
unsigned int eighths(const Crop& crop) {
  unsigned int least = 8;
  for (const unsigned int n : {4U, 2U, 1U}) {
    if (crop.height * n < crop.out_height * 8 || crop.width * n < crop.out_width * 8) break;
    least = n;
  }
  return least;
}

/// Place of the part, in pixels of the image as decoded.
struct Window {
  double top = 0.0, left = 0.0, height = 0.0, width = 0.0;
};

bool begin(Decoder& decoder, const Crop& crop, int64_t channels, Window& window) {
  if (setjmp(decoder.errors.place) != 0) return false;
  jpeg_decompress_struct& info = decoder.info;
  info.scale_num = eighths(crop);
  info.scale_denom = 8;
  info.out_color_space = is_ink(info) ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&info);
  const double down = static_cast<double>(info.output_height) / static_cast<double>(info.image_height);
  const double across = static_cast<double>(info.output_width) / static_cast<double>(info.image_width);
  window = {static_cast<double>(crop.top) * down, static_cast<double>(crop.left) * across,
            static_cast<double>(crop.height) * down, static_cast<double>(crop.width) * across};
  return true;
}

/// Reads rows [first, first + count) of the picture, from column `left` on; libjpeg's rows may begin further left.
bool read_rows(Decoder& decoder, JDIMENSION first, JDIMENSION count, JDIMENSION& left, JDIMENSION& width,
               std::vector<uint8_t>& pixels) {
  jpeg_decompress_struct& info = decoder.info;
  if (setjmp(decoder.errors.place) != 0) return false;
  if (left > 0 || width < info.output_width) jpeg_crop_scanline(&info, &left, &width);
  const size_t row_bytes = static_cast<size_t>(width) * static_cast<size_t>(info.output_components);
  pixels.resize(row_bytes * count);
  if (first > 0) jpeg_skip_scanlines(&info, first);
  for (JDIMENSION row = 0; row < count;) {
    JSAMPROW at = pixels.data() + row_bytes * row;
    row += jpeg_read_scanlines(&info, &at, 1);
  }
  return true;
}

/// Reads on to the file's end mark, decoding only the last row, into `row`: libjpeg does not check data that it skips to the
/// end. Files with several scans were read whole when decoding began.
bool read_rest(Decoder& decoder, std::vector<uint8_t>& row) {
  jpeg_decompress_struct& info = decoder.info;
  if (setjmp(decoder.errors.place) != 0) return false;
  if (jpeg_has_multiple_scans(&info)) return true;
  const JDIMENSION last = info.output_height - 1;
  if (info.output_scanline < last) jpeg_skip_scanlines(&info, last - info.output_scanline);
  while (info.output_scanline < info.output_height) {
    JSAMPROW at = row.data();
    jpeg_read_scanlines(&info, &at, 1);
  }
  jpeg_finish_decompress(&info);
  return true;
}

/// Converts inverted cyan, magenta, yellow and black to colours, rounding as Pillow does.
void convert_inks(Picture& picture) {
  const int64_t count = picture.height * picture.width;
  const uint8_t* in = picture.pixels.data();
  uint8_t* out = picture.pixels.data();  // in place
  const auto product = [](uint32_t a, uint32_t b) { return ((a * b + 128) + ((a * b + 128) >> 8)) >> 8; };
  for (int64_t i = 0; i < count; ++i, in += 4, out += picture.channels) {
    uint8_t colours[3];
    for (int c = 0; c < 3; ++c) colours[c] = static_cast<uint8_t>(in[3] - product(255U - in[c], in[3]));
    if (picture.channels == 1) {
      *out = grey_of(colours);
    } else {
      std::copy_n(colours, 3, out);
    }
  }
  picture.pixels.resize(static_cast<size_t>(count * picture.channels));
}

}  // namespace

bool is_jpeg(const std::vector<uint8_t>& file) { return file.size() > 2 && file[0] == 0xff && file[1] == 0xd8; }

DecodedCrop decode_jpeg(const std::vector<uint8_t>& file, int64_t channels, ChooseCrop choose, const std::string& name) {
  Decoder decoder;
  const auto fail = [&] {
    if (decoder.errors.is_memory) throw MemoryError(fmt::format("{}: out of memory for decoding it", name));
    throw BadDataError(fmt::format("{}: not a whole JPEG image: {}", name, decoder.errors.message));
  };
  if (!read_header(decoder, file.data(), file.size())) fail();
  const jpeg_decompress_struct& info = decoder.info;
  if (int64_t{info.image_height} * info.image_width > kMostPixels) {
    throw BadDataError(
        fmt::format("{}: {} x {} pixels, too many for a training image", name, info.image_height, info.image_width));
  }
  const Crop crop = choose(info.image_height, info.image_width);
  DecodedCrop result{.picture = {}, .out_height = crop.out_height, .out_width = crop.out_width, .alone = crop.alone};
  Window window;
  if (!begin(decoder, crop, channels, window)) fail();
  // One pixel more on each side, for the averages at the edges.
  const auto clip = [](double value, JDIMENSION most) {
    return static_cast<JDIMENSION>(std::clamp(value, 0.0, static_cast<double>(most)));
  };
  const JDIMENSION first = clip(window.top - 2.0, info.output_height - 1);
  const JDIMENSION last = clip(window.top + window.height + 3.0, info.output_height);
  JDIMENSION left = clip(window.left - 2.0, info.output_width - 1);
  JDIMENSION width = clip(window.left + window.width + 3.0, info.output_width) - left;
  if (!read_rows(decoder, first, last - first, left, width, result.picture.pixels)) fail();
  result.picture.height = last - first;
  result.picture.width = width;
  result.picture.channels = channels;
  if (is_ink(info)) convert_inks(result.picture);
  if (crop.checks_rest) {
    std::vector<uint8_t> row(static_cast<size_t>(info.output_width) * static_cast<size_t>(info.output_components));
    if (!read_rest(decoder, row)) fail();
  }
  result.top = window.top - first;
  result.left = window.left - left;
  result.height = window.height;
  result.width = window.width;
  return result;
}

}  // namespace weft
