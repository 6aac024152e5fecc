// An image file's bytes, in whichever format it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/data/images/picture.h"

namespace weft {

/// How names of files end that hold an image, in any case, for people.
inline constexpr const char* kImageEndings = ".jpg, .jpeg, .jfif, .png";

/// Whether an ending, without the dot, is one of them.
bool is_image_ending(std::string_view ending);
/// Whether it is that of an image of another kind, which is not read: "webp".
bool is_other_image_ending(std::string_view ending);
/// An ending as it is compared: in small letters.
std::string lower_case(std::string_view text);

/// The part that `choose` chooses of a JPEG or PNG file. `name` begins errors. Throws BadDataError for bytes that are neither,
/// or damaged.
DecodedCrop decode_image(const std::vector<uint8_t>& file, const ImageDecoding& decoding, ChooseCrop choose,
                         const std::string& name);

/// The part of a picture that is there whole.
DecodedCrop cropped(Picture picture, ChooseCrop choose);

}  // namespace weft
