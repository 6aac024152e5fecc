// Resizes a part of a picture.
#pragma once

#include "weft/data/images/picture.h"

namespace weft {

/// Resizes the part to out_height x out_width pixels, float in [0, 255], planes [channels, out_height, out_width] in `out`;
/// `flip` mirrors it left to right. Bilinear; when shrinking, each pixel is a mean with triangular weights over two output
/// pixels, as in the antialiased resizing of Pillow and torchvision. At the edges, pixels next to the part count too, unless
/// Crop::alone is set.
void resample_crop(const DecodedCrop& crop, bool flip, float* out);

}  // namespace weft
