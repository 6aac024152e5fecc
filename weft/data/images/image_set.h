// A Dataset of images: decoded, cropped, mirrored and scaled a batch at a time. What is random is drawn from (seed, epoch,
// sample) alone, so neither workers nor ranks nor restarts change a pixel.
#pragma once

#include <memory>
#include <vector>

#include "weft/data/bad_data.h"
#include "weft/data/dataset.h"
#include "weft/data/images/image_source.h"

namespace weft {

/// What is done at random to an image for training.
struct Augmentation {
  int64_t crop_padding = 0;  ///< pixels that the image is moved by, at most, up or down and sideways; black comes in
  bool flip = false;         ///< mirrored left to right, every second time
  /// Above 0: a part of the image with at least this share of its area and sides of 3:4 to 4:3, as torchvision's
  /// RandomResizedCrop takes it (Szegedy et al. 2014, arXiv:1409.4842).
  double least_area = 0.0;
};

/// How samples are made of images.
struct ImageSetOptions {
  int64_t channels = 3;  ///< of samples; 1 (grey) or 3. A source with one channel fills all three
  int64_t height = 32;   ///< rows of samples
  int64_t width = 32;    ///< pixels of a row
  /// Subtracted from each channel's pixels, taken as numbers in [0, 1], which are divided by the deviation then; one for all
  /// channels, or one each.
  std::vector<double> mean = {0.5};
  std::vector<double> stddev = {0.5};  ///< as the mean: above 0
  Augmentation augmentation = {};      ///< for training; none: the middle of the image
  double middle = 0.875;  ///< without: the share of the image that is taken, by its sides, where it is larger than samples are
  uint64_t seed = 0;      ///< of the augmentation
  BadSample bad = BadSample::refuse;  ///< what to do with an image that cannot be decoded
};

/// Samples of `source`: inputs[0] float32 [n, channels, height, width], target int64 [n]. An image smaller than that has black
/// around it. An image's file is checked as a whole when it is first read (a byte of memory an image); from then on it is
/// decoded no further than its part needs. Throws InputError for options out of range; get() what the source throws, and where
/// a hundred images one after another are bad.
std::shared_ptr<Dataset> open_image_set(std::shared_ptr<const ImageSource> source, const ImageSetOptions& options);

}  // namespace weft
