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
  std::string column = "image";        ///< bytes, or a struct with 'bytes', as in Hugging Face's datasets
  std::string label_column = "label";  ///< whole numbers
  ImageDecoding decoding = {};         ///< for each image
  int64_t classes = 1000;              ///< labels must be in [0, classes)
  BadData bad = BadData::refuse;       ///< policy for rows without a good label, and for damage
  int64_t cache_bytes = 0;             ///< row groups kept in memory; at least two of them
};

/// Images in the order of files and rows. Metadata and labels are read once, here (8 bytes of memory per image); images
/// on demand, by row group. Throws open_parquet()'s InputErrors, and one with file, row group and row (from 0)
/// for a label that is null or out of range; decode() throws BadDataError for an image that is null.
std::shared_ptr<ImageSource> open_parquet_images(std::shared_ptr<const ShardFiles> files, const ParquetImages& options);

}  // namespace weft
