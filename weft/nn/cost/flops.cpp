#include "weft/nn/cost/flops.h"

#include <ATen/record_function.h>

#include <string_view>

namespace weft {

namespace {

double product(at::IntArrayRef sizes) {
  double result = 1.0;
  for (int64_t size : sizes) result *= static_cast<double>(size);
  return result;
}

/// 2 x rows x inner x columns, from the two factors among the inputs.
double matrix_flops(const at::Tensor& left, const at::Tensor& right) { return 2.0 * product(left.sizes()) * right.size(-1); }

/// Scores and weighted values: two products of [queries, head width] and [queries, keys] per head, including the masked half.
double attention_flops(const at::Tensor& query, const at::Tensor& key) {
  return 4.0 * product(query.sizes()) * static_cast<double>(key.size(2));
}

}  // namespace

/// Every output element sums over (input channels / groups) x kernel elements: numel(weight) / output channels.
double convolution_flops(const at::Tensor& output, const at::Tensor& weight) {
  return 2.0 * product(output.sizes()) * product(weight.sizes()) / static_cast<double>(weight.size(0));
}

double flops_of(const at::RecordFunction& fn) {
  const std::string_view op = fn.name();
  const auto in = fn.inputs();
  if (op == "aten::mm" || op == "aten::bmm") return matrix_flops(in[0].toTensor(), in[1].toTensor());
  if (op == "aten::addmm" || op == "aten::baddbmm") return matrix_flops(in[1].toTensor(), in[2].toTensor());
  if (op == "aten::convolution_backward") {  // one convolution for the input's gradient, one for the weight's
    const c10::List<bool> mask = fn.inputs()[10].toBoolList();
    return (mask.get(0) + mask.get(1)) * convolution_flops(in[0].toTensor(), in[2].toTensor());
  }
  if (op == "weft::attention") return attention_flops(in[0].toTensor(), in[1].toTensor());
  if (op == "weft::attention_backward") return 2.5 * attention_flops(in[0].toTensor(), in[1].toTensor());
  if (op == "aten::_scaled_dot_product_flash_attention_for_cpu") {
    return attention_flops(in[0].toTensor(), in[1].toTensor());
  }
  if (op == "aten::_scaled_dot_product_flash_attention_for_cpu_backward") {  // recomputes the scores, plus four products
    return 2.5 * attention_flops(in[1].toTensor(), in[2].toTensor());
  }
  return 0.0;
}

}  // namespace weft
