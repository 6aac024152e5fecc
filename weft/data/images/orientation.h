// EXIF orientation: how a camera marks that an image must be rotated or mirrored to be upright.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/data/images/picture.h"

namespace weft {

/// Transformation of stored pixels to the upright image: mirrored first, then transposed.
struct Orientation {
  bool flips_rows = false;     ///< the last row becomes the first
  bool flips_columns = false;  ///< the last pixel of a row becomes its first
  bool transposed = false;     ///< then rows become columns

  bool is_upright() const { return !flips_rows && !flips_columns && !transposed; }  ///< nothing to do
};

/// Reads the orientation from a file's EXIF data (tag 0x0112): in a JPEG's first EXIF APP1 segment, or a PNG's eXIf chunk.
/// Upright if it is absent or invalid.
Orientation orientation_of(const std::vector<uint8_t>& file);

/// Converts a part of the upright image to pixels of the stored one, which is `height` x `width`.
Crop as_stored(const Crop& crop, int64_t height, int64_t width, const Orientation& orientation);

/// Rotates and mirrors a part of the stored image to be upright.
DecodedCrop turn_upright(DecodedCrop part, const Orientation& orientation);

}  // namespace weft
