// Picture: an image as bytes, and which part of it a sample is made of.
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <vector>

namespace weft {

/// Larger ones are no samples of a training, but mistakes or harm.
inline constexpr int64_t kMostPixels = int64_t{1} << 28;

/// What becomes of pixels that are not opaque.
enum class Transparency {
  dropped,  ///< they have the colour that the file gives them, as Pillow's convert("RGB") and so torchvision has it
  on_black  ///< the darker, the more transparent they are
};

/// How an image's file becomes pixels.
struct ImageDecoding {
  int64_t channels = 3;                               ///< 1 (grey) or 3 (red, green, blue)
  Transparency transparency = Transparency::dropped;  ///< of files that have some
  bool upright = false;  ///< turned and mirrored as the file's EXIF orientation tells; otherwise as its pixels are stored
};

/// Pixels as bytes: rows from the top, pixels from the left, channels side by side.
struct Picture {
  int64_t height = 0;           ///< rows
  int64_t width = 0;            ///< pixels of a row
  int64_t channels = 0;         ///< 1 (grey) or 3 (red, green, blue)
  std::vector<uint8_t> pixels;  ///< [height, width, channels]
};

/// The grey of a colour, as JPEG has it (ITU-R BT.601).
inline uint8_t grey_of(const uint8_t* colour) {
  return static_cast<uint8_t>((19595U * colour[0] + 38470U * colour[1] + 7471U * colour[2] + (1U << 15)) >> 16);
}

/// A part of an image, in pixels of the whole, and how many pixels are made of it.
struct Crop {
  int64_t top = 0;         ///< its first row
  int64_t left = 0;        ///< its first pixel of a row
  int64_t height = 0;      ///< rows of the part, which lies inside the image
  int64_t width = 0;       ///< pixels of its rows
  int64_t out_height = 0;  ///< rows of what is made of it
  int64_t out_width = 0;   ///< pixels of those
  bool alone = false;  ///< made of its own pixels alone, as if it had been cut out first; otherwise those beside it count at
                       ///< its edges, as if the whole had been made smaller and cut then
  bool checks_rest = true;  ///< the rest of the file is checked as well: whether an image is damaged is then a matter of its
                            ///< bytes, whatever part is chosen. Of one that passed this before there is no need to
};

/// Chooses the part, once the image's size is known.
using ChooseCrop = c10::function_ref<Crop(int64_t height, int64_t width)>;

/// A decoded part: it may have been decoded at a half, a quarter or an eighth of its size, and more of it than was asked for.
struct DecodedCrop {
  Picture picture;         ///< in which the part lies
  double top = 0.0;        ///< of the part, in pixels of the picture
  double left = 0.0;       ///< the same
  double height = 0.0;     ///< the same
  double width = 0.0;      ///< the same
  int64_t out_height = 0;  ///< as Crop has it
  int64_t out_width = 0;   ///< as Crop has it
  bool alone = false;      ///< as Crop has it
};

}  // namespace weft
