// Options of a model from a file, and the arrays that it takes.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// Options of an exported model.
struct ExportedModelOptions {
  std::string path;                        ///< the file that torch.export.save() wrote
  std::string blocks = "auto";             ///< where to cut (exported/cut.h)
  bool reads_tokens = false;               ///< takes token ids [samples, tokens]; otherwise floats, such as images
  bool reads_arrays = false;               ///< takes what the file says: float32 or int64 samples of any shape
  std::vector<int64_t> sample_shape = {};  ///< shape of a sample, compared with the file's; empty: not compared
  int64_t classes = 0;                     ///< size of the logits' last dim, compared with the file's; 0: not compared
  std::string loss = "cross_entropy";      ///< or "mean_squares": of its first output; or the file of another program
};

/// What a sample has in one array.
struct ExportedArray {
  at::ScalarType type = at::kFloat;
  std::vector<int64_t> shape = {};  ///< without the samples
  bool operator==(const ExportedArray&) const = default;
};
}  // namespace weft
