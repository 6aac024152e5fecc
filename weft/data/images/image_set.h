// A Dataset of images: decoded, cropped, mirrored and scaled batch by batch. Random choices are drawn from (seed, epoch,
// sample) alone, so neither workers nor ranks nor restarts change a pixel.
#pragma once

#include <memory>
#include <vector>

#include "weft/data/bad_data.h"
#include "weft/data/dataset.h"
#include "weft/data/images/image_source.h"

namespace weft {

/// Random changes to an image for training.
struct Augmentation {
  int64_t crop_padding = 0;  ///< largest shift in pixels, vertically and horizontally; filled with black
  bool flip = false;         ///< mirrored left to right, with probability 1/2
  /// Above 0: a random part with at least this share of the image's area and an aspect ratio of 3:4 to 4:3, as in torchvision's
  /// RandomResizedCrop (Szegedy et al. 2014, arXiv:1409.4842).
  double least_area = 0.0;
};

/// How images become samples.
struct ImageSetOptions {
  int64_t channels = 3;  ///< of samples; 1 (grey) or 3. A source with one channel fills all three
  int64_t height = 32;   ///< rows of samples
  int64_t width = 32;    ///< pixels of a row
  /// Mean and standard deviation of each channel's pixels in [0, 1]; pixels become (pixel - mean) / stddev. One value, or one
  /// per channel.
  std::vector<double> mean = {0.5};
  std::vector<double> stddev = {0.5};  ///< above 0
  Augmentation augmentation = {};      ///< for training; default: the middle of the image
  double middle = 0.875;  ///< without augmentation: share of the image used, along its sides, if it is larger than samples
  uint64_t seed = 0;      ///< for the augmentation
  BadSample bad = BadSample::refuse;  ///< policy for an image that cannot be decoded
};

/// Samples of `source`: inputs[0] float32 [n, channels, height, width], target int64 [n]. Smaller images get a black border. An
/// image's whole file is checked at its first read (one byte of memory per image); after that, only the part needed is decoded.
/// Throws InputError for options out of range; get() throws what the source does, and for a hundred bad images in a row.
std::shared_ptr<Dataset> open_image_set(std::shared_ptr<const ImageSource> source, const ImageSetOptions& options);

}  // namespace weft
