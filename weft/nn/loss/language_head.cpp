#include "weft/nn/loss/language_head.h"

#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>

#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/nn/functional/norms.h"
#include "weft/nn/functional/recompute.h"
#include "weft/nn/layers/linear.h"
#include "weft/nn/layers/normed_linear.h"
#include "weft/nn/loss/split_cross_entropy.h"
#include "weft/nn/tensor_checks.h"
#include "weft/nn/tensor_parallel/collectives.h"
#include "weft/nn/tensor_parallel/whole_value.h"

namespace weft {

namespace {

/// The normalised tokens of the micro-batch, as one long sample: [1, all tokens, width].
at::Tensor normalised(const at::Tensor& x, const NormParameters& norm, const Context& context) {
  at::Tensor rows =
      normalise(x, {whole_value(*norm.weight, context), norm.bias ? whole_value(*norm.bias, context) : at::Tensor(), norm.eps});
  if (context.layout.sequence_parallel) rows = join_over(rows, 1, context.tp, "input of the logits");
  TensorChecks("loss").sizes("target", context.target, rows.sizes().slice(0, rows.dim() - 1), rows);
  return rows.reshape({1, -1, rows.size(-1)});
}

}  // namespace

Tensors language_head(const at::Tensor& x, const NormParameters& norm, const LinearParameters& layer, int64_t vocabulary,
                      const Context& context) {
  const int64_t chunk = context.layout.loss_chunk;
  if (chunk == 0 || !context.target.defined()) return normed_linear(x, {}, norm, {layer}, context).outputs;
  if (context.layout.sequence_parallel && context.tp.size() > 1 && !layer.weight->split) {
    throw InputError(
        "language_head: with layout.sequence_parallel and layout.loss_chunk its layer must be split over tp by the "
        "vocabulary; give it a rule in Model::splits, or leave loss_chunk out");
  }
  const at::Tensor ids = vocabulary_targets(context.target, vocabulary);
  at::Tensor rows = normalised(x, norm, context);
  // A recompute's backward runs if its input needs a gradient: also where the weights alone do.
  if (at::GradMode::is_enabled() && layer.weight->value.requires_grad() && !rows.requires_grad()) {
    rows = rows.detach().requires_grad_(true);
  }
  Context inner = context;  // of a chunk, which all ranks of tp have whole
  inner.target.reset();
  inner.layout.sequence_parallel = false;
  const std::vector<at::Tensor> inputs = rows.split(chunk, 1), targets = ids.reshape({1, -1}).split(chunk, 1);
  Tensors losses, hits;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor& own = targets[i];
    const auto logits_of = [layer, inner](const at::Tensor& in) { return linear(in, *layer.weight, layer.bias, inner); };
    if (context.training) {
      const auto loss_of = [logits_of, own, vocabulary, inner](const at::Tensor& in) {
        return vocabulary_loss(logits_of(in), own, vocabulary, inner);
      };
      losses.push_back(recompute(loss_of, inputs[i], PartDraws::keys));
      continue;
    }
    const at::Tensor logits = logits_of(inputs[i]);
    losses.push_back(vocabulary_loss(logits, own, vocabulary, inner));
    const LossCount count = vocabulary_hits(vocabulary)({logits}, own, inner);
    const at::Tensor& on_device = count.on_device();
    hits.push_back(on_device.defined() ? on_device : at::full({}, int64_t{count}, ids.options()));
  }
  Tensors outputs = {at::stack(losses)};
  if (!context.training) outputs.push_back(at::stack(hits));
  return outputs;
}

}  // namespace weft
