// WebDataset: images in tar files ("shards"), as in the Python library: members KEY.jpg (or .jpeg, .jfif, .png) and KEY.cls,
// whose text is the label's number.
#pragma once

#include <memory>

#include "weft/data/bad_data.h"
#include "weft/data/files/shard_files.h"
#include "weft/data/images/image_source.h"

namespace weft {

/// How shards become images.
struct WebDatasetOptions {
  ImageDecoding decoding = {};    ///< for each image
  int64_t classes = 1000;         ///< labels must be in [0, classes)
  BadData bad = BadData::refuse;  ///< policy for a truncated shard, and for a key without a good label
};

/// Images of the shards, in order of shards and of images in them. passed_over() lists other members, and bytes after a shard's
/// end mark. A member's key is its path up to the first dot in the file name, the rest is its field ("a/1.seg.png": "a/1",
/// "seg.png"). Image and label are the fields "jpg" and "cls", or the only fields with these endings: members with dots in
/// their names are samples, too. Hidden members are skipped. One pass over the headers, here, finds the images (about 100 bytes
/// of memory per image); later each image is read separately, in any order. Throws InputError, naming shard and key, for an
/// image without .cls or with a label out of range, a .cls without an image, a duplicate key, a shard that is not a whole
/// uncompressed tar file, and if there is no image at all.
std::shared_ptr<ImageSource> open_web_dataset(std::shared_ptr<const ShardFiles> shards, const WebDatasetOptions& options);

}  // namespace weft
