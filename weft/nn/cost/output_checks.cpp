#include "weft/nn/cost/output_checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"

namespace weft {

void check_outputs(const Model& model, size_t block, const Tensors& outputs, bool has_gradient) {
  const std::string& name = model.blocks[block].name;
  if (std::any_of(outputs.begin(), outputs.end(), [](const at::Tensor& x) { return x.is_complex() && x.requires_grad(); })) {
    throw InputError(
        fmt::format("model: outputs of block '{}' are complex, but blocks hand on gradients of real ones alone; return "
                    "torch.view_as_real() of them",
                    name));
  }
  if (has_gradient) return;
  for (size_t b = 0; b <= block; ++b) {
    for (const ParamSpec& spec : model.blocks[b].block->parameters()) {
      if (spec.statistic || spec.frozen) continue;
      throw InputError(fmt::format(
          "model: outputs of block '{}' have no gradient (detach(), or operators without one), so that parameters up to "
          "it, such as '{}', would not be trained; call requires_grad_(False) of those, or cut the blocks elsewhere",
          name, spec.name));
    }
  }
}

}  // namespace weft
