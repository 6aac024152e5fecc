// An image file's bytes, in whichever format it is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/data/images/picture.h"

namespace weft {

/// The part that `choose` chooses of a JPEG or PNG file. `name` begins errors. Throws BadDataError for bytes that are neither,
/// or damaged.
DecodedCrop decode_image(const std::vector<uint8_t>& file, const ImageDecoding& decoding, ChooseCrop choose,
                         const std::string& name);

/// The part of a picture that is there whole.
DecodedCrop cropped(Picture picture, ChooseCrop choose);

}  // namespace weft
