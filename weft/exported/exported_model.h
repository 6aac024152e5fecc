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

#include <cstdint>
#include <string>
#include <vector>

#include "weft/exported/split_patterns.h"
#include "weft/nn/model.h"

namespace weft {

/// Options of an exported model.
struct ExportedModelOptions {
  std::string path;                        ///< the file that torch.export.save() wrote
  std::string blocks = "auto";             ///< where to cut (exported/cut.h)
  SplitPatterns splits = {};               ///< layers that ranks of tp may share
  bool reads_tokens = false;               ///< takes token ids [samples, tokens]; otherwise floats, such as images
  std::vector<int64_t> sample_shape = {};  ///< shape of a sample, compared with the file's; empty: not compared
  int64_t classes = 0;                     ///< size of the logits' last dim, compared with the file's; 0: not compared
};

/// Returns the model, whose loss is the cross entropy of its first output. Throws FileError for a damaged file, InputError for
/// a program that weft does not train; both say what to export instead.
Model exported_model(const ExportedModelOptions& options);

/// Elements of the file's weights, and bytes of all its values per sample: never less than training needs.
struct ExportedSize {
  double weights = 0.0;
  double sample_bytes = 0.0;
};
/// Reads the file's shapes. Throws as exported_model() does for damage.
ExportedSize exported_size(const std::string& path);

}  // namespace weft
