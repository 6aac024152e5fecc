#include "weft/nn/cost/made_parameters.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <numeric>
#include <vector>

#include "weft/nn/parameter_split.h"

namespace weft {

namespace {

/// Shape of the whole parameter, given this rank's part.
std::vector<int64_t> whole_shape(const Parameter& parameter) {
  std::vector<int64_t> shape = parameter.value.sizes().vec();
  if (!parameter.split) return shape;
  if (parameter.split->pieces > 0) shape.erase(shape.begin());
  const std::vector<int64_t>& segments = parameter.split->segments;
  shape[parameter.split->dim] = std::accumulate(segments.begin(), segments.end(), int64_t{0});
  return shape;
}

}  // namespace

void make_parameters(Model& model, const CostOptions& options) {
  for (NamedBlock& named : model.blocks) {
    for (const ParamSpec& spec : named.block->parameters()) {
      Parameter& parameter = *spec.parameter;
      if (parameter.split) parameter.value = take_part(parameter.value.detach(), *parameter.split);
      if (!spec.wide) parameter.value = parameter.value.detach().to(options.weight_dtype);
      if (spec.statistic || spec.frozen) continue;
      parameter.value.requires_grad_(true);
      parameter.gradient = at::empty_like(parameter.value, parameter.value.options().dtype(options.gradient_dtype));
    }
  }
}

void restore_parameters(Model& model) {
  for (NamedBlock& named : model.blocks) {
    for (const ParamSpec& spec : named.block->parameters()) {
      at::Tensor& value = spec.parameter->value;
      value = at::empty(whole_shape(*spec.parameter), value.options().dtype(at::kFloat));
      spec.parameter->gradient.reset();
    }
  }
}

}  // namespace weft
