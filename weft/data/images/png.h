// PNG files, by libpng.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/data/images/picture.h"

namespace weft {

/// Whether the bytes begin as a PNG file does.
bool is_png(const std::vector<uint8_t>& file);

/// The whole image as it is stored, 8 bits of 16, whatever gamma it tells. `name` begins errors. Throws BadDataError for bytes
/// that are cut off or damaged.
Picture decode_png(const std::vector<uint8_t>& file, const ImageDecoding& decoding, const std::string& name);

}  // namespace weft
