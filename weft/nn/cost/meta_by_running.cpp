#include "weft/nn/cost/meta_by_running.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <torch/library.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

namespace weft {

namespace {

constexpr int64_t kMostBytes = int64_t{4} << 30;  // of a call's arguments

/// Zeros of the tensor's strides.
at::Tensor zeros_like_of(const at::Tensor& x, int64_t& bytes) {
  if (!x.defined() || !x.is_meta()) return x;
  const auto places = static_cast<int64_t>(at::detail::computeStorageNbytes(x.sizes(), x.strides(), x.element_size()));
  bytes += places;
  TORCH_CHECK(bytes <= kMostBytes, "its shapes are seen by running it, which takes ", bytes,
              " bytes here; make micro-batches smaller");
  return at::zeros({places / x.element_size()}, x.options().device(at::kCPU)).as_strided(x.sizes(), x.strides());
}

template <class Change>
c10::IValue changed(const c10::IValue& value, const Change& change) {
  if (value.isTensor()) return change(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> all;
    for (const at::Tensor& x : value.toTensorVector()) all.push_back(change(x));
    return all;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> all;
    for (const std::optional<at::Tensor>& x : value.toOptionalTensorVector()) {
      all.push_back(x ? std::optional(change(*x)) : std::nullopt);
    }
    return all;
  }
  return value.isDevice() ? c10::IValue(c10::Device(at::kCPU)) : value;
}

at::Tensor without_values(const at::Tensor& x) {
  return x.defined() ? at::empty_strided(x.sizes(), x.strides(), x.options().device(at::kMeta)) : x;
}

void run(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const size_t given = schema.arguments().size();
  std::vector<c10::IValue> arguments(stack->end() - static_cast<std::ptrdiff_t>(given), stack->end());
  stack->erase(stack->end() - static_cast<std::ptrdiff_t>(given), stack->end());
  torch::jit::Stack on_cpu;
  int64_t bytes = 0;
  for (const c10::IValue& argument : arguments) {
    on_cpu.push_back(changed(argument, [&](const at::Tensor& x) { return zeros_like_of(x, bytes); }));
  }
  const torch::jit::Stack kept = on_cpu;  // LibTorch drops arguments before it copies what refers to several of them
  const c10::NoGradGuard no_grad;
  const at::DisableRecordFunctionGuard unseen;
  op.callBoxed(on_cpu);
  for (size_t i = 0; i < on_cpu.size(); ++i) {
    const c10::AliasInfo* const alias = schema.returns()[i].alias_info();
    size_t same = given;  // the argument that is returned
    for (size_t j = 0; j < given && alias != nullptr; ++j) {
      const c10::AliasInfo* const own = schema.arguments()[j].alias_info();
      if (own != nullptr && own->beforeSets() == alias->beforeSets()) same = j;
    }
    stack->push_back(same < given ? arguments[same] : changed(on_cpu[i], without_values));
    if (same < given && kept[same].isTensor()) stack->back().toTensor().resize_(kept[same].toTensor().sizes());  // of out=
  }
}

bool depends_on_values(const c10::OperatorHandle& op) {
  for (const at::Tag tag : {at::Tag::data_dependent_output, at::Tag::dynamic_output_shape, at::Tag::nondeterministic_seeded}) {
    if (op.hasTag(tag)) return true;
  }
  return false;
}

bool returns_views(const c10::FunctionSchema& schema) {
  const auto is_view = [](const c10::Argument& x) { return x.alias_info() != nullptr && !x.alias_info()->isWrite(); };
  return std::any_of(schema.returns().begin(), schema.returns().end(), is_view);
}

}  // namespace

bool register_meta_by_running(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, bool> known;
  static auto& all = *new std::vector<torch::Library>;  // never destroyed, as the dispatcher may be gone before them
  const std::lock_guard lock(mutex);
  if (!name.starts_with("aten::")) return false;
  const auto [place, is_new] = known.try_emplace(name, false);
  bool& any = place->second;
  if (!is_new) return any;
  for (const c10::OperatorName& each : c10::Dispatcher::singleton().getAllOpNames()) {
    if (each.name != name) continue;
    const auto op = c10::Dispatcher::singleton().findOp(each);
    if (!op || !op->hasSchema() || !op->hasKernelForDispatchKey(c10::DispatchKey::CPU)) continue;
    if (op->hasKernelForDispatchKey(c10::DispatchKey::Meta) || depends_on_values(*op) || returns_views(op->schema())) continue;
    all.emplace_back(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__);
    const std::string overload = each.overload_name.empty() ? "" : "." + each.overload_name;
    all.back().impl((name.substr(6) + overload).c_str(), torch::CppFunction::makeFromBoxedFunction<&run>());
    any = true;
  }
  return any;
}

}  // namespace weft
