// EXIF orientation: how cameras tell that an image is to be turned or mirrored to stand upright.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/data/images/picture.h"

namespace weft {

/// How stored pixels become the upright image: mirrored first, then rows and columns change places.
struct Orientation {
  bool flips_rows = false;     ///< the last row becomes the first
  bool flips_columns = false;  ///< the last pixel of a row becomes its first
  bool transposed = false;     ///< then rows become columns

  bool is_upright() const { return !flips_rows && !flips_columns && !transposed; }  ///< nothing is to be done
};

/// What the file's EXIF data tells (the tag 0x0112): of a JPEG in its first APP1 segment that is EXIF, of a PNG in its chunk
/// eXIf. Upright where there is none, or it makes no sense.
Orientation orientation_of(const std::vector<uint8_t>& file);

/// A part of the upright image, in pixels of the stored one, which is `height` x `width`.
Crop as_stored(const Crop& crop, int64_t height, int64_t width, const Orientation& orientation);

/// A part of the stored image, upright.
DecodedCrop upright(DecodedCrop part, const Orientation& orientation);

}  // namespace weft
