#include "weft/data/images/decode_image.h"

#include <fmt/format.h>

#include <utility>

#include "weft/data/bad_data.h"
#include "weft/data/images/jpeg.h"
#include "weft/data/images/png.h"

namespace weft {

DecodedCrop decode_image(const std::vector<uint8_t>& file, int64_t channels, ChooseCrop choose, const std::string& name) {
  if (is_jpeg(file)) return decode_jpeg(file, channels, choose, name);
  if (is_png(file)) return cropped(decode_png(file, channels, name), choose);
  throw BadDataError(fmt::format("{}: {}", name, file.empty() ? "an empty file" : "neither a JPEG nor a PNG image"));
}

DecodedCrop cropped(Picture picture, ChooseCrop choose) {
  const Crop crop = choose(picture.height, picture.width);
  return {.picture = std::move(picture),
          .top = static_cast<double>(crop.top),
          .left = static_cast<double>(crop.left),
          .height = static_cast<double>(crop.height),
          .width = static_cast<double>(crop.width),
          .out_height = crop.out_height,
          .out_width = crop.out_width};
}

}  // namespace weft
