// JPEG files, by libjpeg-turbo.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/data/images/picture.h"

namespace weft {

/// True if the bytes begin as a JPEG file does.
bool is_jpeg(const std::vector<uint8_t>& file);

/// Returns the part of the image that `choose` selects, with 1 or 3 `channels`. Decodes only the rows and columns it needs, at
/// an eighth, a quarter or half of the size if that still has the requested pixels; the rest of the file is still checked to
/// its end mark (Crop::checks_rest). Inks (CMYK, YCCK) become colours as in Pillow: always taken as inverted, as Adobe stores
/// them. `name`: for errors. Throws BadDataError for bytes that are truncated, damaged, or of colours that cannot be
/// converted to those channels.
DecodedCrop decode_jpeg(const std::vector<uint8_t>& file, int64_t channels, ChooseCrop choose, const std::string& name);

}  // namespace weft
