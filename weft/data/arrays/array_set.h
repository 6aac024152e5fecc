// Samples of any shape from NumPy files in a folder: inputs.npy, or one file per input, and targets.npy. Their first dimension
// is of the samples.
//
// Rows are read from the files when they are wanted; memory holds none but those of a batch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/data/dataset.h"

namespace weft {

/// The part of a folder's samples that a set has, as shares of them.
struct ArrayPart {
  double begin = 0.0;
  double end = 1.0;
};

/// What one array of a folder must be.
struct ArrayFile {
  std::string name;  ///< of the file, without ".npy"
  at::Tensor like;   ///< has its type, float32 or int64, and shape, the first size apart
};

/// Opens a folder's samples: their inputs, in this order, and targets.npy, which is `target`-like. float64 is converted to
/// float32, int32 to int64. Throws InputError for other types and shapes, Fortran's order, damaged files, files with different
/// numbers of samples, and a part without samples.
std::shared_ptr<Dataset> open_arrays(const std::string& folder, const std::vector<ArrayFile>& inputs, const at::Tensor& target,
                                     ArrayPart part = {});

}  // namespace weft
