#include "weft/nn/cost/launches.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <functional>
#include <mutex>
#include <set>
#include <string_view>
#include <unordered_map>

namespace weft {

namespace {

/// Kernels of a device, although LibTorch makes them of others, or has none of the CPU's.
constexpr std::array<std::string_view, 4> kKernels{"aten::copy_", "aten::_foreach_copy_", "aten::convolution",
                                                   "aten::convolution_backward"};
/// Calls that look at no values.
constexpr std::array<std::string_view, 7> kOthers{"aten::resize_",      "aten::resize_as_",        "aten::set_",
                                                  "aten::is_set_to",    "aten::_fused_sdp_choice", "aten::empty_strided",
                                                  "aten::record_stream"};

constexpr std::string_view kOwn = "weft::";  ///< weft's kernels (nn/kernel_record.h, nn/attention)

template <class Names>
bool has(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string kernel_of(const c10::OperatorName& name) {
  const auto op = c10::Dispatcher::singleton().findSchema(name);
  if (!op || has(kOthers, name.name) || name.name == "aten::empty") return {};
  for (const c10::Argument& result : op->schema().returns()) {
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) return {};  // a view
  }
  if (!has(kKernels, name.name) && !op->hasKernelForDispatchKey(c10::DispatchKey::CPU)) return {};
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

}  // namespace

const std::string& launch_of(const at::RecordFunction& call) {
  static std::mutex mutex;
  static auto& known = *new std::unordered_map<c10::OperatorName, std::string>;
  static const auto& none = *new std::string;
  static auto& kernels = *new std::set<std::string, std::less<>>;  // of weft's, which are no operators
  const auto name = call.operator_name();
  const std::lock_guard lock(mutex);
  if (!name) {
    const std::string_view kernel = call.name();
    if (call.scope() != at::RecordScope::FUNCTION || !kernel.starts_with(kOwn)) return none;
    const auto found = kernels.find(kernel);
    return found != kernels.end() ? *found : *kernels.emplace(kernel).first;
  }
  const auto found = known.find(*name);
  return found != known.end() ? found->second : known.emplace(*name, kernel_of(*name)).first->second;
}

}  // namespace weft
