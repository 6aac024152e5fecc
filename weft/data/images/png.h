// PNG files, by libpng.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/data/images/picture.h"

namespace weft {

/// True if the bytes begin as a PNG file does.
bool is_png(const std::vector<uint8_t>& file);

/// Returns the whole image as stored: gamma is ignored, and 16-bit values keep the upper 8 bits. `name`: for errors. Throws
/// BadDataError for bytes that are truncated or damaged.
Picture decode_png(const std::vector<uint8_t>& file, const ImageDecoding& decoding, const std::string& name);

}  // namespace weft
