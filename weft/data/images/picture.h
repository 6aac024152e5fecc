// Picture: an image as bytes, and the part of it that becomes a sample.
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <vector>

namespace weft {

/// Most pixels of an image; larger images are mistakes or malicious, not training samples.
inline constexpr int64_t kMostPixels = int64_t{1} << 28;

/// Treatment of pixels that are not opaque.
enum class Transparency {
  dropped,  ///< they keep the file's colour, as in Pillow's convert("RGB") and therefore torchvision
  on_black  ///< darkened in proportion to their transparency
};

/// How an image file becomes pixels.
struct ImageDecoding {
  int64_t channels = 3;                               ///< 1 (grey) or 3 (red, green, blue)
  Transparency transparency = Transparency::dropped;  ///< for files with transparency
  bool upright = false;  ///< rotated and mirrored by the file's EXIF orientation; otherwise pixels as stored
};

/// Pixels as bytes: rows from the top, pixels from the left, channels adjacent.
struct Picture {
  int64_t height = 0;           ///< rows
  int64_t width = 0;            ///< pixels of a row
  int64_t channels = 0;         ///< 1 (grey) or 3 (red, green, blue)
  std::vector<uint8_t> pixels;  ///< [height, width, channels]
};

/// Grey of a colour, as defined for JPEG (ITU-R BT.601).
inline uint8_t grey_of(const uint8_t* colour) {
  return static_cast<uint8_t>((19595U * colour[0] + 38470U * colour[1] + 7471U * colour[2] + (1U << 15)) >> 16);
}

/// Part of an image, in pixels of the whole image, and its size after resizing.
struct Crop {
  int64_t top = 0;         ///< its first row
  int64_t left = 0;        ///< its first pixel of a row
  int64_t height = 0;      ///< rows of the part, which lies inside the image
  int64_t width = 0;       ///< pixels of its rows
  int64_t out_height = 0;  ///< rows after resizing
  int64_t out_width = 0;   ///< pixels per row after resizing
  bool alone = false;  ///< made of its own pixels only, as if cropped first; otherwise neighbouring pixels count at its edges,
                       ///< as if the whole image had been resized first
  bool checks_rest = true;  ///< also checks the rest of the file, so that whether it is damaged does not depend on the part
                            ///< selected; unnecessary for a file that passed this check before
};

/// Selects the part, once the image's size is known.
using ChooseCrop = c10::function_ref<Crop(int64_t height, int64_t width)>;

/// Decoded part. It may have been decoded at a half, a quarter or an eighth of its size, and may exceed the part requested.
struct DecodedCrop {
  Picture picture;         ///< contains the part
  double top = 0.0;        ///< of the part, in pixels of the picture
  double left = 0.0;       ///< the same
  double height = 0.0;     ///< the same
  double width = 0.0;      ///< the same
  int64_t out_height = 0;  ///< as in Crop
  int64_t out_width = 0;   ///< as in Crop
  bool alone = false;      ///< as in Crop
};

}  // namespace weft
