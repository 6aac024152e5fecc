// Makes another number of pixels of a part of a picture.
#pragma once

#include "weft/data/images/picture.h"

namespace weft {

/// The part as out_height x out_width pixels, float in [0, 255], planes [channels, out_height, out_width] in `out`; mirrored
/// left to right with `flip`. Bilinear; where it gets smaller each pixel is a mean, weighted by a triangle as wide as two
/// pixels of the result, as Pillow's and torchvision's antialiased resizing do. At its edges pixels beside the part count too,
/// unless it is to be made of its own alone (Crop::alone).
void resample(const DecodedCrop& crop, bool flip, float* out);

}  // namespace weft
