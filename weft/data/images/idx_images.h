// Images in IDX files (the MNIST family), gzipped or not. Pixels stay in memory as bytes (47 MB for Fashion-MNIST's training
// set) and become floats a batch at a time.
#pragma once

#include <memory>
#include <string>

#include "weft/data/bad_data.h"
#include "weft/data/dataset.h"
#include "weft/data/images/image_set.h"

namespace weft {

/// A set of images: two files in the IDX format.
struct ImageFiles {
  std::string images;             ///< path of the idx3-ubyte file, or of its .gz
  std::string labels;             ///< path of the idx1-ubyte file, or of its .gz
  int classes = 10;               ///< labels must be in [0, classes)
  BadData bad = BadData::refuse;  ///< what to do with other labels, and with a file that is cut off
};

/// Mean and standard deviation of a set's pixels, taken as numbers in [0, 1]. Fashion-MNIST's training set unless told.
struct PixelScale {
  double mean = 0.2860;    ///< subtracted from each pixel
  double stddev = 0.3530;  ///< what it is divided by then; positive
};

/// The images of `files`: inputs[0] float32 [n, 1, height, width], scaled by `scale`; target int64 [n]. Throws InputError that
/// names file and reason for a missing, truncated, corrupt or mismatched file.
std::shared_ptr<Dataset> open_images(const ImageFiles& files, const PixelScale& scale = {});

/// The same, for open_image_set().
std::shared_ptr<ImageSource> open_idx_images(const ImageFiles& files);

/// Where Debian's dataset-fashion-mnist puts its four files.
inline constexpr const char* kFashionMnistFolder = "/usr/share/datasets/fashion-mnist";

/// A part of a set of images.
enum class ImageSplit { training, evaluation };

/// The files of one split in a folder laid out as MNIST is (train-* and t10k-*), the .gz unless there is a plain one;
/// Kaggle's names (train-images.idx3-ubyte) do as well.
ImageFiles mnist_files(const std::string& folder, ImageSplit split);

}  // namespace weft
