#include "weft/exported/exported_loss.h"

#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/exported/exported_array.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/loss/mean_squares.h"
#include "weft/nn/loss/split_cross_entropy.h"

namespace weft {
namespace {

/// What images or tokens come with: a label, or the next tokens.
ExportedArray given_target(const ExportedGraph& model, const ExportedModelOptions& o) {
  ExportedArray target{.type = at::kLong, .shape = {}};
  const std::vector<ExportedDim>& dims = model.shapes.at(model.inputs.front()).dims;
  for (size_t d = 1; o.reads_tokens && d < dims.size(); ++d) target.shape.push_back(dims[d].size);
  return target;
}

ExportedLoss of_classes(const ExportedGraph& model, const ExportedModelOptions& o) {
  if (!o.reads_arrays) {
    const bool of_words = o.reads_tokens && o.classes > 0;
    return {.loss = of_words ? vocabulary_cross_entropy(o.classes) : Loss(cross_entropy),
            .hits = of_words ? vocabulary_hits(o.classes) : Hits(count_hits),
            .top5 = o.reads_tokens ? Hits() : top5_of(o.classes),
            .target = given_target(model, o),
            .options = {model_option("loss", o.loss)}};
  }
  ExportedArray target = array_of(model, model.outputs.front(), "its first output");
  if (target.shape.empty()) {
    throw InputError(
        fmt::format("{}: its first output is {}, but the cross entropy takes logits [samples, ..., classes]; set "
                    "model.loss, or export a model that returns logits",
                    o.path, text_of(target)));
  }
  const int64_t classes = target.shape.back();
  target.shape.pop_back();
  target.type = at::kLong;
  return {.loss = cross_entropy,
          .hits = count_hits,
          .top5 = top5_of(classes),
          .target = std::move(target),
          .classes = classes,
          .options = {model_option("loss", o.loss)}};
}

ExportedLoss of_squares(const ExportedGraph& model, const ExportedModelOptions& o) {
  ExportedArray target = array_of(model, model.outputs.front(), "its first output");
  if (target.type != at::kFloat) {
    throw InputError(
        fmt::format("{}: its first output is {}, but mean squares are of float32; export a model that returns that", o.path,
                    text_of(target)));
  }
  return {.loss = mean_squares, .target = std::move(target), .options = {model_option("loss", o.loss)}};
}

}  // namespace

ExportedLoss exported_loss(const ExportedGraph& model, const ExportedModelOptions& o) {
  ExportedLoss loss = o.loss == "cross_entropy"  ? of_classes(model, o)
                      : o.loss == "mean_squares" ? of_squares(model, o)
                                                 : program_loss(model, o.loss);
  if (o.reads_arrays) return loss;
  const ExportedArray given = given_target(model, o);
  if (loss.target == given) return loss;
  throw InputError(
      fmt::format("{}: its loss takes targets {}, but model.inputs = \"{}\" comes with {}; set model.inputs = "
                  "\"arrays\"",
                  o.path, text_of(loss.target), o.reads_tokens ? "tokens" : "images", text_of(given)));
}

}  // namespace weft
