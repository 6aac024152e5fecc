#include "weft/nn/cost/launched_work.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace weft {

namespace {

/// Names without "aten::" or "weft::", and without "_backward" or "_gradient(s)".
struct NamedClass {
  std::string_view name;
  MemoryClass of;
};
constexpr std::array<NamedClass, 26> kClasses = {{{"norm", MemoryClass::norm},
                                                  {"channels", MemoryClass::channels},
                                                  {"native_layer_norm", MemoryClass::norm},
                                                  {"native_batch_norm", MemoryClass::norm},
                                                  {"native_group_norm", MemoryClass::norm},
                                                  {"activation", MemoryClass::activation},
                                                  {"gelu", MemoryClass::activation},
                                                  {"silu", MemoryClass::activation},
                                                  {"relu", MemoryClass::activation},
                                                  {"relu_", MemoryClass::activation},
                                                  {"threshold", MemoryClass::activation},
                                                  {"max_pool2d_with_indices", MemoryClass::pool},
                                                  {"avg_pool2d", MemoryClass::pool},
                                                  {"_adaptive_avg_pool2d", MemoryClass::pool},
                                                  {"turn", MemoryClass::rotary},
                                                  {"drop", MemoryClass::dropout},
                                                  {"native_dropout", MemoryClass::dropout},
                                                  {"class_losses", MemoryClass::loss},
                                                  {"class_loss", MemoryClass::loss},
                                                  {"_log_softmax", MemoryClass::loss},
                                                  {"_log_softmax_data", MemoryClass::loss},
                                                  {"nll_loss_forward", MemoryClass::loss},
                                                  {"nll_loss", MemoryClass::loss},
                                                  {"embedding", MemoryClass::embedding},
                                                  {"embedding_dense", MemoryClass::embedding},
                                                  {"index_select", MemoryClass::embedding}}};
/// Operators that touch only the elements of their first argument that they return or add to.
constexpr std::array<std::string_view, 4> kSparse = {"embedding", "index_select", "gather", "scatter_add_"};
/// Operators in place that do not read what they write.
constexpr std::array<std::string_view, 8> kOverwrite = {"zero_",          "fill_",   "copy_",    "_foreach_copy_",
                                                        "_foreach_zero_", "normal_", "uniform_", "bernoulli_"};
constexpr int64_t kUnknown = -1;  ///< rows of a convolution that has not run
constexpr std::array<std::string_view, 3> kBackward = {"_backward", "_gradients", "_gradient"};

template <class Names>
bool has(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string_view without_namespace(std::string_view name) {
  const size_t colons = name.find("::");
  return colons == std::string_view::npos ? name : name.substr(colons + 2);
}

/// The name of the operator whose gradient `name` computes; empty if it computes none.
std::string_view forward_of(std::string_view name) {
  for (const std::string_view end : kBackward) {
    if (name.ends_with(end)) return name.substr(0, name.size() - end.size());
  }
  return {};
}

int64_t bytes_of(const at::Tensor& x) {
  if (!x.defined() || !x.has_storage()) return 0;
  const int64_t bytes = x.numel() * static_cast<int64_t>(x.element_size());
  return std::min(bytes, static_cast<int64_t>(x.storage().nbytes()));  // less if it is expanded
}

int64_t bytes_of(const c10::IValue& value) {
  if (value.isTensor()) return bytes_of(value.toTensor());
  int64_t bytes = 0;
  if (value.isTensorList()) {
    for (const at::Tensor& x : value.toTensorVector()) bytes += bytes_of(x);
  }
  return bytes;
}

/// Notes the elements of a value's tensors, if they are the most so far.
void note_elements(const c10::IValue& value, OperatorWork& work) {
  const auto note = [&work](const at::Tensor& x) {
    if (!x.defined() || x.numel() <= work.elements) return;
    work.elements = x.numel();
    work.element_bytes = static_cast<int>(x.element_size());
  };
  if (value.isTensor()) note(value.toTensor());
  if (!value.isTensorList()) return;
  for (const at::Tensor& x : value.toTensorVector()) note(x);
}

OperatorWork product_of(const at::Tensor& a, const at::Tensor& b, const at::Tensor& added) {
  const bool adds =
      added.defined() && added.dim() == a.dim() && added.numel() == a.numel() / std::max<int64_t>(a.size(-1), 1) * b.size(-1);
  return {.kind = OperatorKind::product,
          .adds = adds,
          .element_bytes = static_cast<int>(a.element_size()),
          .form = a.stride(-1) > 1 && a.stride(-2) == 1 ? ProductForm::turned : ProductForm::plain,
          .batch = a.dim() == 3 ? a.size(0) : 1,
          .rows = a.size(-2),
          .columns = b.size(-1),
          .inner = a.size(-1)};
}

/// From queries [samples, heads, queries, head width] and keys.
OperatorWork attention_of(const at::Tensor& q, const at::Tensor& k, bool is_backward, bool is_causal) {
  return {.kind = OperatorKind::attention,
          .is_backward = is_backward,
          .is_causal = is_causal,
          .element_bytes = static_cast<int>(q.element_size()),
          .batch = q.size(0),
          .rows = q.size(2),
          .columns = k.size(2),
          .inner = q.size(3),
          .heads = q.size(1),
          .kv_heads = k.size(1)};
}

/// Positions and samples of an image.
int64_t pixels_of(const at::Tensor& image) { return image.numel() / std::max<int64_t>(image.size(1), 1); }

/// A convolution as a product of windows [pixels, channels x kernel] and filters.
OperatorWork convolution_of(int64_t pixels, const at::Tensor& weight, int64_t groups) {
  return {.kind = OperatorKind::product,
          .element_bytes = static_cast<int>(weight.element_size()),
          .form = ProductForm::convolution,
          .window = static_cast<int>(weight.numel() / std::max<int64_t>(weight.size(0) * weight.size(1), 1)),
          .batch = groups,
          .rows = pixels,
          .columns = weight.size(0) / std::max<int64_t>(groups, 1),
          .inner = weight.numel() / std::max<int64_t>(weight.size(0), 1)};
}

/// One convolution for each wanted gradient.
PassOperators convolution_gradients(c10::ArrayRef<const c10::IValue> in) {
  const OperatorWork forward = convolution_of(pixels_of(in[0].toTensor()), in[2].toTensor(), in[9].toInt());
  const c10::List<bool> wanted = in[10].toBoolList();
  OperatorWork input = forward, weight = forward;
  input.form = ProductForm::image, weight.form = ProductForm::filters;
  std::swap(input.columns, input.inner);
  weight.rows = forward.columns, weight.columns = forward.inner, weight.inner = forward.rows;
  PassOperators all;
  if (wanted.get(0)) all.push_back(input);
  if (wanted.get(1)) all.push_back(weight);
  return all;
}

/// The declaration of a call's operator; empty for calls that are none.
std::optional<c10::OperatorHandle> declared(const at::RecordFunction& call) {
  const auto name = call.operator_name();
  return name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
}

OperatorWork memory_of(std::string_view name, const at::RecordFunction& call) {
  OperatorWork work{.kind = OperatorKind::memory};
  const std::string_view forward = forward_of(name);
  const auto found = std::find_if(kClasses.begin(), kClasses.end(),
                                  [of = forward.empty() ? name : forward](const NamedClass& x) { return x.name == of; });
  if (found != kClasses.end()) work.of = found->of;
  work.is_backward = !forward.empty();
  const auto operation = declared(call);
  const auto inputs = call.inputs();
  if (!operation) {  // a kernel of weft's, which names all that it reads and writes
    for (const c10::IValue& input : inputs) {
      work.bytes += bytes_of(input);
      note_elements(input, work);
    }
    return work;
  }
  const auto& arguments = operation->schema().arguments();
  const bool in_place = name.ends_with('_') && !has(kOverwrite, name);
  for (size_t i = 0; i < std::min(arguments.size(), inputs.size()); ++i) {
    if (i == 0 && has(kSparse, name)) continue;
    const c10::AliasInfo* alias = arguments[i].alias_info();
    const bool is_written = alias != nullptr && alias->isWrite();
    work.bytes += (is_written && in_place ? 2 : 1) * bytes_of(inputs[i]);
    note_elements(inputs[i], work);
  }
  return work;
}

}  // namespace

PassOperators work_before(const at::RecordFunction& call) {
  const std::string_view full = call.name(), name = without_namespace(full);
  const auto in = call.inputs();
  const auto tensor = [&in](size_t i) -> const at::Tensor& { return in[i].toTensor(); };
  if (name == "mm" || name == "bmm") return {product_of(tensor(0), tensor(1), {})};
  if (name == "addmm" || name == "baddbmm") return {product_of(tensor(1), tensor(2), tensor(0))};
  if (full == "weft::attention" || full == "weft::attention_backward") {
    return {attention_of(tensor(0), tensor(1), name == "attention_backward", in[2].toBool())};
  }
  if (name == "_scaled_dot_product_flash_attention_for_cpu") {
    return {attention_of(tensor(0), tensor(1), false, in[4].toBool())};
  }
  if (name == "_scaled_dot_product_flash_attention_for_cpu_backward") {
    return {attention_of(tensor(1), tensor(2), true, in[7].toBool())};
  }
  if (name == "convolution") return {convolution_of(kUnknown, tensor(1), in[8].toInt())};
  if (name == "convolution_backward") return convolution_gradients(in);
  return {memory_of(name, call)};
}

void complete_work(PassOperators& work, const at::RecordFunction& call) {
  const std::string_view name = without_namespace(call.name());
  const auto& outputs = call.outputs();
  for (OperatorWork& x : work) {
    if (x.rows == kUnknown && !outputs.empty()) x.rows = pixels_of(outputs[0].toTensor());  // none: the call has thrown
  }
  if (work.size() != 1 || work.front().kind != OperatorKind::memory) return;
  OperatorWork& only = work.front();
  const auto operation = declared(call);
  if (!operation) return;
  const auto& returns = operation->schema().returns();
  for (size_t i = 0; i < std::min(returns.size(), outputs.size()); ++i) {
    if (returns[i].alias_info() != nullptr) continue;  // an argument
    only.bytes += (has(kSparse, name) ? 2 : 1) * bytes_of(outputs[i]);
    note_elements(outputs[i], only);
  }
}

}  // namespace weft
