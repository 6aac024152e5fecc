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
  std::vector<ModelOption> options = {};  ///< by which checkpoints know it
};

/// Returns the loss that the options name, of the model's first output. Throws InputError for one that does not fit that, or
/// whose targets are not those of the model's inputs.
ExportedLoss exported_loss(const ExportedGraph& model, const ExportedModelOptions& options);

/// A value of a program, whose samples lead. Throws InputError, which calls it `what`, if they do not or another size varies.
ExportedArray array_of(const ExportedGraph& graph, const std::string& value, const std::string& what);

}  // namespace weft
