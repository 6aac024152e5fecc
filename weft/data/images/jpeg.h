// JPEG files, by libjpeg-turbo.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/data/images/picture.h"

namespace weft {

/// Whether the bytes begin as a JPEG file does.
bool is_jpeg(const std::vector<uint8_t>& file);

/// The part of the image that `choose` chooses, with 1 or 3 `channels`. Makes pixels of no more rows and columns than it needs,
/// at an eighth, a quarter or half of the size where that still has the pixels that are asked for; the rest of the file is gone
/// through to its end mark nevertheless (Crop::checks_rest). Inks (CMYK, YCCK) become colours as Pillow has it: always stored
/// inverted, as Adobe does. `name` begins errors. Throws BadDataError for bytes that are cut off, damaged, or of colours that
/// cannot be made into those channels.
DecodedCrop decode_jpeg(const std::vector<uint8_t>& file, int64_t channels, ChooseCrop choose, const std::string& name);

}  // namespace weft
