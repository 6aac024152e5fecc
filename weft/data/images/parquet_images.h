// Images in Parquet files: JPEG or PNG files in one column, their labels in another.
#pragma once

#include <memory>
#include <string>

#include "weft/data/bad_data.h"
#include "weft/data/files/shard_files.h"
#include "weft/data/images/image_source.h"

namespace weft {

/// How rows become images.
struct ParquetImages {
  std::string column = "image";        ///< bytes, or a struct in which 'bytes' is, as Hugging Face's datasets have it
  std::string label_column = "label";  ///< whole numbers
  ImageDecoding decoding = {};         ///< of each image
  int64_t classes = 1000;              ///< labels must be in [0, classes)
  BadData bad = BadData::refuse;       ///< what to do with a row without a good label, and with what is damaged
  int64_t cache_bytes = 0;             ///< of row groups that are kept in memory; two of them, where these have more
};

/// The images in the order of the files and rows. Metadata and labels are read once, here (8 bytes of memory an image); images
/// a row group at a time, when one of it is needed. Throws InputError as open_parquet() does, and that names file, row group
/// and row (from 0): for a label that is null or out of range; decode() BadDataError for an image that is null.
std::shared_ptr<ImageSource> open_parquet_images(std::shared_ptr<const ShardFiles> files, const ParquetImages& options);

}  // namespace weft
