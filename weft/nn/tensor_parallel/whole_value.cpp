#include "weft/nn/tensor_parallel/whole_value.h"

#include "weft/nn/tensor_parallel/collectives.h"

namespace weft {

at::Tensor whole_value(const Parameter& parameter, const Context& context) {
  if (!context.layout.sequence_parallel) return parameter.value;
  if (context.layout.partial_gradients) {
    parameter.partial = true;
    return parameter.value;
  }
  return copy_to(parameter.value, context.tp, "a parameter that is not split");
}

}  // namespace weft
