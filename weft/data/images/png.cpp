#include "weft/data/images/png.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <new>
#include <utility>

#include "weft/data/bad_data.h"

namespace weft {

namespace {

/// State of libpng's reader: its input, and error handling by a long jump, because it is C. No object with a destructor is made
/// between setjmp and the jump.
struct Reader {
  const uint8_t* next = nullptr;
  size_t left = 0;
  png_structp png = nullptr;
  png_infop info = nullptr;
  char message[128] = "out of memory";

  explicit Reader(const std::vector<uint8_t>& file) : next(file.data()), left(file.size()) {
    png = png_create_read_struct(
        PNG_LIBPNG_VER_STRING, this,
        [](png_structp png, png_const_charp message) {
          auto* self = static_cast<Reader*>(png_get_error_ptr(png));
          std::strncpy(self->message, message, sizeof self->message - 1);
          png_longjmp(png, 1);
        },
        [](png_structp, png_const_charp) {});
    info = png ? png_create_info_struct(png) : nullptr;
    if (!info) throw std::bad_alloc();
    png_set_read_fn(png, this, [](png_structp png, png_bytep out, size_t count) {
      auto* self = static_cast<Reader*>(png_get_io_ptr(png));
      if (count > self->left) png_error(png, "the file ends early");
      std::memcpy(out, self->next, count);
      self->next += count;
      self->left -= count;
    });
  }
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
};

bool read_header(Reader& reader) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_read_info(reader.png, reader.info);
  return true;
}

/// Reads any kind of file as bytes: grey or red, green, blue, as stored (no gamma is applied), with opacity unless that is
/// dropped.
bool read_pixels(Reader& reader, Transparency transparency, std::vector<uint8_t>& pixels, std::vector<png_bytep>& rows) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_set_expand(reader.png);
  png_set_strip_16(reader.png);  // as Pillow does
  if (transparency == Transparency::dropped) png_set_strip_alpha(reader.png);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  const size_t row_bytes = png_get_rowbytes(reader.png, reader.info);
  pixels.resize(row_bytes * rows.size());
  for (size_t row = 0; row < rows.size(); ++row) rows[row] = pixels.data() + row * row_bytes;
  png_read_image(reader.png, rows.data());
  return true;
}

/// Converts pixels of 1 to 4 channels (grey, grey and opacity, RGB, RGB and opacity) to 1 or 3, on black.
void convert(const std::vector<uint8_t>& from, int64_t have, Picture& picture) {
  const bool has_opacity = have % 2 == 0, is_grey = have < 3;
  const int64_t count = picture.height * picture.width;
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t* in = from.data() + i * have;
    uint8_t* out = picture.pixels.data() + i * picture.channels;
    const uint32_t opacity = has_opacity ? in[have - 1] : 255;
    const auto colour = [&](int64_t c) { return (in[is_grey ? 0 : c] * opacity + 127) / 255; };
    uint8_t colours[3];
    for (int64_t c = 0; c < 3; ++c) colours[c] = static_cast<uint8_t>(colour(c));
    if (picture.channels == 3) {
      std::copy_n(colours, 3, out);
    } else {
      *out = is_grey ? colours[0] : grey_of(colours);
    }
  }
}

}  // namespace

bool is_png(const std::vector<uint8_t>& file) { return file.size() > 8 && png_sig_cmp(file.data(), 0, 8) == 0; }

Picture decode_png(const std::vector<uint8_t>& file, const ImageDecoding& decoding, const std::string& name) {
  const auto fail = [&](const char* message) {
    throw BadDataError(fmt::format("{}: not a whole PNG image: {}", name, message));
  };
  Reader reader(file);
  if (!read_header(reader)) fail(reader.message);
  const int64_t height = png_get_image_height(reader.png, reader.info), width = png_get_image_width(reader.png, reader.info);
  if (width * height > kMostPixels) fail("it has too many pixels for a training image");
  std::vector<uint8_t> pixels;
  std::vector<png_bytep> rows(static_cast<size_t>(height));
  if (!read_pixels(reader, decoding.transparency, pixels, rows)) fail(reader.message);
  const int64_t have = png_get_channels(reader.png, reader.info), channels = decoding.channels;
  Picture picture{.height = height, .width = width, .channels = channels, .pixels = {}};
  if (have == channels) {
    picture.pixels = std::move(pixels);
  } else {
    picture.pixels.resize(static_cast<size_t>(height * width * channels));
    convert(pixels, have, picture);
  }
  return picture;
}

}  // namespace weft
