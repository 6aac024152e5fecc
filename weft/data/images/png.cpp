#include "weft/data/images/png.h"

#include <fmt/format.h>
#include <png.h>

#include <cstring>

#include "weft/data/bad_data.h"

namespace weft {

bool is_png(const std::vector<uint8_t>& file) { return file.size() > 8 && png_sig_cmp(file.data(), 0, 8) == 0; }

Picture decode_png(const std::vector<uint8_t>& file, int64_t channels, const std::string& name) {
  constexpr int64_t kMostPixels = int64_t{1} << 28;
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const auto fail = [&](const char* message) {
    const std::string text = message;  // of the image, which is freed
    png_image_free(&image);
    throw BadDataError(fmt::format("{}: not a whole PNG image: {}", name, text));
  };
  if (png_image_begin_read_from_memory(&image, file.data(), file.size()) == 0) fail(image.message);
  if (int64_t{image.width} * image.height > kMostPixels) fail("it has more pixels than an image for training");
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  Picture picture{.height = image.height, .width = image.width, .channels = channels, .pixels = {}};
  picture.pixels.resize(PNG_IMAGE_SIZE(image));
  const png_color black{};
  if (png_image_finish_read(&image, &black, picture.pixels.data(), 0, nullptr) == 0 || image.warning_or_error > 1) {
    fail(image.message);
  }
  return picture;
}

}  // namespace weft
