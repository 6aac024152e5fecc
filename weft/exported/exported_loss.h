// The loss of an exported model.
#pragma once

#include <vector>

#include "weft/exported/exported_options.h"
#include "weft/exported/graph.h"
#include "weft/nn/model.h"

namespace weft {

/// A loss, and what it makes of a model.
struct ExportedLoss {
  Loss loss;
  Hits hits = {}, top5 = {};              ///< empty: the outputs are no logits
  ExportedArray target = {};              ///< what it compares outputs with
  int64_t classes = 0;                    ///< of logits of arrays, whose targets are below; otherwise 0
  std::vector<ModelOption> options = {};  ///< by which checkpoints know it
};

/// Returns the loss that the options name. Throws InputError for one that does not fit the model's outputs, or whose targets
/// are not those of the model's inputs; FileError for a damaged file.
ExportedLoss exported_loss(const ExportedGraph& model, const ExportedModelOptions& options);

/// Another program as a loss: of (outputs..., target), it returns a loss per sample or element, their mean, or (sum, count).
ExportedLoss program_loss(const ExportedGraph& model, const std::string& path);

}  // namespace weft
