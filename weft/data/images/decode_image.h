// Decoding of an image file in any supported format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/data/images/picture.h"

namespace weft {

/// Endings of names of image files, in any case, for users.
inline constexpr const char* kImageEndings = ".jpg, .jpeg, .jfif, .png";

/// True if an ending, without the dot, is one of them.
bool is_image_ending(std::string_view ending);
/// True for the ending of an image format that weft does not read: "webp".
bool is_other_image_ending(std::string_view ending);
/// Returns an ending in lower case, for comparison.
std::string lower_case(std::string_view text);

/// Returns the part of a JPEG or PNG file that `choose` selects. `name`: for errors. Throws BadDataError for bytes that are
/// neither, or damaged.
DecodedCrop decode_image(const std::vector<uint8_t>& file, const ImageDecoding& decoding, ChooseCrop choose,
                         const std::string& name);

/// Returns the part that `choose` selects of a picture that was decoded whole.
DecodedCrop crop_picture(Picture picture, ChooseCrop choose);

}  // namespace weft
