// A model from a file: a program of torch.export, cut into blocks and trained as any other model.
//
// The file holds the forward; backward is autograd's. Operators run in the file's order through LibTorch's dispatcher.
// Parameters get the type that the layout chooses; what else is float32 in the file stays so (exported/type_rule.h). Operators'
// flags of training (dropout, BatchNorm) are false in evaluations. Dropout and stochastic depth are keyed by sample
// (nn/random.h); other random operators draw from LibTorch's generators, keyed by block and micro-batch, so that they depend on
// the size of micro-batches.
//
// Parameters and statistics are on the meta device: the trainer loads their values from the same file
// (checkpoint/weights/weights_file.h). Buffers and constants are read here.
#pragma once

#include <string>
#include <vector>

#include "weft/exported/exported_options.h"
#include "weft/nn/model.h"

namespace weft {

/// Returns the model. Throws FileError for a damaged file, InputError for a program that weft does not train; both say what to
/// export instead.
Model exported_model(const ExportedModelOptions& options);

/// What the model takes and learns from.
struct ExportedArrays {
  std::vector<ExportedArray> inputs;  ///< in the file's order
  std::vector<std::string> names;     ///< of forward's arguments
  ExportedArray target;
  int64_t classes = 0;  ///< as ExportedLoss::classes
};
/// Reads the file's shapes. Throws as exported_model() does for them.
ExportedArrays exported_arrays(const ExportedModelOptions& options);

/// Elements of the file's weights, and bytes of all its values per sample: never less than training needs.
struct ExportedSize {
  double weights = 0.0;
  double sample_bytes = 0.0;
};
/// Reads the file's shapes. Throws as exported_model() does for damage.
ExportedSize exported_size(const std::string& path);

}  // namespace weft
