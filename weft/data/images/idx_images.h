// Images in IDX files (the MNIST family), gzipped or not. Pixels stay in memory as bytes (47 MB for Fashion-MNIST's training
// set) and become floats batch by batch.
#pragma once

#include <memory>
#include <string>

#include "weft/data/bad_data.h"
#include "weft/data/dataset.h"
#include "weft/data/images/image_set.h"

namespace weft {

/// Set of images: two files in the IDX format.
struct ImageFiles {
  std::string images;             ///< path of the idx3-ubyte file, or its .gz
  std::string labels;             ///< path of the idx1-ubyte file, or its .gz
  int classes = 10;               ///< labels must be in [0, classes)
  BadData bad = BadData::refuse;  ///< policy for labels out of range and for a truncated file
};

/// Mean and standard deviation of a set's pixels in [0, 1]. The defaults are those of Fashion-MNIST's training set.
struct PixelScale {
  double mean = 0.2860;    ///< subtracted from each pixel
  double stddev = 0.3530;  ///< divisor applied after that; positive
};

/// Images of `files`: inputs[0] float32 [n, 1, height, width], scaled by `scale`; target int64 [n]. Throws InputError, naming
/// file and reason, for a missing, truncated, corrupt or mismatched file.
std::shared_ptr<Dataset> open_images(const ImageFiles& files, const PixelScale& scale = {});

/// The same, for open_image_set().
std::shared_ptr<ImageSource> open_idx_images(const ImageFiles& files);

/// Folder where Debian's dataset-fashion-mnist puts its four files.
inline constexpr const char* kFashionMnistFolder = "/usr/share/datasets/fashion-mnist";

/// Part of a set of images.
enum class ImageSplit { training, evaluation };

/// Files of one split in a folder laid out as MNIST is (train-* and t10k-*), the .gz unless a plain one exists; Kaggle's names
/// (train-images.idx3-ubyte) also work.
ImageFiles mnist_files(const std::string& folder, ImageSplit split);

}  // namespace weft
