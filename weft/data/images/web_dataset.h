// WebDataset: images in tar files ("shards"), as the Python library of that name has them: members KEY.jpg (or .jpeg, .jfif,
// .png) and KEY.cls, whose text is the label's number.
#pragma once

#include <memory>

#include "weft/data/bad_data.h"
#include "weft/data/files/shard_files.h"
#include "weft/data/images/image_source.h"

namespace weft {

/// How shards become images.
struct WebDatasetOptions {
  ImageDecoding decoding = {};    ///< of each image
  int64_t classes = 1000;         ///< labels must be in [0, classes)
  BadData bad = BadData::refuse;  ///< what to do with a shard that is cut short, and a key without a good label
};

/// The images of the shards, in the order of the shards and of the images in them; other members are passed over, which
/// passed_over() tells, as it does of bytes behind a shard's end mark. A member's name up to the first dot behind its folders
/// is its key, the rest its field ("a/1.seg.png": "a/1", "seg.png"). The image and the label are the fields "jpg" and "cls", or
/// the only ones that end so: members with dots in their names are samples, too. Hidden members are none. Where images lie is
/// found once, here, in one pass over the headers (about 100 bytes of memory an image), so that each is read by itself later,
/// in any order. Throws InputError that names shard and key: for an image without .cls or with a label out of range, a .cls
/// without an image, a key that comes twice, a shard that is no whole uncompressed tar file, and where there is no image at
/// all.
std::shared_ptr<ImageSource> open_web_dataset(std::shared_ptr<const ShardFiles> shards, const WebDatasetOptions& options);

}  // namespace weft
