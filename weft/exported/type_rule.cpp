#include "weft/exported/type_rule.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <map>
#include <optional>

namespace weft {
namespace {

bool is_floating(const c10::IValue& x) {
  return x.isTensor() && x.toTensor().defined() && at::isFloatingType(x.toTensor().scalar_type());
}

/// The narrow type among the arguments, also those in lists, if some are float32 too.
std::optional<at::ScalarType> narrow_of_mixed(const std::vector<c10::IValue>& arguments) {
  std::optional<at::ScalarType> narrow;
  bool has_float32 = false;
  const auto note = [&](const at::Tensor& x) {
    if (!x.defined()) return;
    const at::ScalarType type = x.scalar_type();
    if (type == at::kHalf || type == at::kBFloat16) narrow = type;
    has_float32 |= type == at::kFloat;
  };
  for (const c10::IValue& x : arguments) {
    if (x.isTensor()) note(x.toTensor());
    if (!x.isTensorList()) continue;
    for (const at::Tensor& element : x.toTensorVector()) note(element);
  }
  return has_float32 ? narrow : std::nullopt;
}

void convert(std::vector<c10::IValue>& arguments, at::ScalarType from, at::ScalarType to) {
  const auto converted = [&](const at::Tensor& x) { return x.scalar_type() == from ? x.to(to) : x; };
  for (c10::IValue& x : arguments) {
    if (is_floating(x)) x = converted(x.toTensor());
    if (!x.isTensorList()) continue;
    std::vector<at::Tensor> list = x.toTensorVector();
    for (at::Tensor& element : list) element = converted(element);
    x = list;
  }
}

/// LibTorch's kernels want the weights of a norm in the type of its statistics.
void widen_weights(std::vector<c10::IValue>& in) {
  constexpr size_t kMean = 3;
  const bool has_statistics = is_floating(in[kMean]);
  const at::ScalarType type = in[has_statistics ? kMean : 0].toTensor().scalar_type();
  for (const size_t i : {1, 2}) {
    if (is_floating(in[i])) in[i] = in[i].toTensor().to(type);
  }
}

void convert_to_self(std::vector<c10::IValue>& in) {
  if (!is_floating(in.front())) return;
  const at::ScalarType type = in.front().toTensor().scalar_type();
  for (size_t i = 1; i < in.size(); ++i) {
    if (is_floating(in[i])) in[i] = in[i].toTensor().to(type);
  }
}

std::map<std::string, TypeRule> rules() {
  std::map<std::string, TypeRule> rules;
  for (const char* name : {"linear",
                           "matmul",
                           "mm",
                           "bmm",
                           "mv",
                           "dot",
                           "vdot",
                           "inner",
                           "addmm",
                           "addbmm",
                           "baddbmm",
                           "addmv",
                           "addr",
                           "einsum",
                           "tensordot",
                           "chain_matmul",
                           "linalg_matmul",
                           "linalg_multi_dot",
                           "linalg_vecdot",
                           "bilinear",
                           "prelu",
                           "conv1d",
                           "conv2d",
                           "conv3d",
                           "conv_tbc",
                           "conv_transpose1d",
                           "conv_transpose2d",
                           "conv_transpose3d",
                           "convolution",
                           "_convolution",
                           "scaled_dot_product_attention",
                           "lstm",
                           "gru",
                           "rnn_tanh",
                           "rnn_relu",
                           "lstm_cell",
                           "gru_cell",
                           "rnn_tanh_cell",
                           "rnn_relu_cell"}) {
    rules.emplace(std::string("aten::") + name, TypeRule::narrow);
  }
  for (const char* name : {"layer_norm", "group_norm", "rms_norm", "lerp", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d",
                           "linalg_cross", "cross"}) {
    rules.emplace(std::string("aten::") + name, TypeRule::wide);
  }
  for (const char* name : {"index_put",     "index_put_",       "masked_scatter", "masked_scatter_", "index_copy",
                           "index_copy_",   "index_add",        "index_add_",     "scatter",         "scatter_",
                           "scatter_add",   "scatter_add_",     "scatter_reduce", "scatter_reduce_", "select_scatter",
                           "slice_scatter", "diagonal_scatter", "masked_fill",    "masked_fill_",    "lerp_"}) {
    rules.emplace(std::string("aten::") + name, TypeRule::of_self);
  }
  for (const char* name : {"batch_norm", "instance_norm"}) rules.emplace(std::string("aten::") + name, TypeRule::of_norm);
  return rules;
}

}  // namespace

TypeRule type_rule(const std::string& name) {
  if (name.starts_with("aten::fft_") || name == "aten::stft" || name == "aten::istft" || name == "aten::cdist") {
    return TypeRule::float32;
  }
  static const std::map<std::string, TypeRule> all = rules();
  const auto found = all.find(name);
  return found == all.end() ? TypeRule::promoted : found->second;
}

void apply_type_rule(TypeRule rule, std::vector<c10::IValue>& arguments) {
  if (rule == TypeRule::promoted || arguments.empty()) return;
  if (rule == TypeRule::float32) {
    for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) convert(arguments, type, at::kFloat);
    return;
  }
  const std::optional<at::ScalarType> narrow = narrow_of_mixed(arguments);
  if (!narrow) return;
  if (rule == TypeRule::narrow) convert(arguments, at::kFloat, *narrow);
  if (rule == TypeRule::wide) convert(arguments, *narrow, at::kFloat);
  if (rule == TypeRule::of_norm) widen_weights(arguments);
  if (rule == TypeRule::of_self) convert_to_self(arguments);
}

}  // namespace weft
