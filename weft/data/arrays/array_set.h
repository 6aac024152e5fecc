// Samples of any shape from two NumPy files: inputs.npy and targets.npy in a folder, whose first dimension is of the samples.
//
// Rows are read from the files when they are wanted; memory holds none but those of a batch.
#pragma once

#include <memory>
#include <string>

#include "weft/data/dataset.h"

namespace weft {

/// The part of a folder's samples that a set has, as shares of them.
struct ArrayPart {
  double begin = 0.0;
  double end = 1.0;
};

/// Opens a folder's samples. `input` and `target` have the type, float32 or int64, and shape that these must have, the first
/// size apart; float64 is converted to float32, int32 to int64. Throws InputError for other types and shapes, Fortran's order,
/// damaged files, and a part without samples.
std::shared_ptr<Dataset> open_arrays(const std::string& folder, const at::Tensor& input, const at::Tensor& target,
                                     ArrayPart part = {});

}  // namespace weft
