#include "weft/nn/functional/weighted_layer.h"

#include "weft/nn/tensor_checks.h"

namespace weft {

bool gradients_have_places(const Parameter& weight, const Parameter* bias) {
  const auto has_place = [](const char* name, const Parameter& x) {
    if (x.gradient.defined()) TensorChecks("layer").place(name, x.gradient, x.value.sizes(), x.value);
    return x.gradient.defined();
  };
  return has_place("gradient of the weight", weight) && (!bias || has_place("gradient of the bias", *bias));
}

std::optional<at::Tensor> value_of(const Parameter* bias) { return bias ? std::optional(bias->value) : std::nullopt; }

}  // namespace weft
