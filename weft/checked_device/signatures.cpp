#include "weft/checked_device/signatures.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace weft::checked_device {

namespace {

bool has_prefix(std::string_view name, std::string_view start) { return name.substr(0, start.size()) == start; }

bool is_optional_generator(const c10::Argument& argument) {
  const auto& type = argument.type();
  return type->kind() == c10::TypeKind::OptionalType &&
         type->expectRef<c10::OptionalType>().getElementType()->kind() == c10::TypeKind::GeneratorType;
}

Signature read_schema(const c10::OperatorHandle& op) {
  // Sizes of the results depend on values; on CUDA the host waits for them.
  static const std::unordered_set<std::string> sized_by_values{"aten::nonzero",       "aten::nonzero.out",
                                                               "aten::masked_select", "aten::masked_select.out",
                                                               "aten::_unique",       "aten::_unique2",
                                                               "aten::unique_dim",    "aten::unique_consecutive",
                                                               "aten::bincount",      "aten::repeat_interleave.Tensor"};
  const c10::FunctionSchema& schema = op.schema();
  const c10::OperatorName& full = schema.operator_name();
  const std::string name = full.overload_name.empty() ? full.name : full.name + "." + full.overload_name;
  Signature s;
  static auto& names = *new std::unordered_set<std::string>;  // for good, as accesses name them
  s.name = names.insert(name).first->c_str();
  bool generator = false;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    s.writes.push_back(argument.alias_info() != nullptr && argument.alias_info()->isWrite());
    if (is_optional_generator(argument)) s.generator = i;
    generator |= argument.type()->str().find("Generator") != std::string::npos;
  }
  bool gives_tensors = false;
  for (const c10::Argument& result : schema.returns()) {
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) s.is_view = true;
    const auto kind = result.type()->kind();
    gives_tensors |= kind == c10::TypeKind::TensorType || kind == c10::TypeKind::ListType;
  }
  const bool chooses = full.name == "aten::_fused_sdp_choice" || full.name == "aten::is_set_to";  // look at no values
  s.waits = sized_by_values.count(name) > 0 || (!gives_tensors && !schema.returns().empty() && !chooses);
  s.is_view |= chooses || has_prefix(name, "aten::set_") || name == "aten::resize_" || name == "aten::resize_as_";
  s.draws = !generator && op.hasTag(at::Tag::nondeterministic_seeded);
  static const std::unordered_set<std::string> indexed{
      "aten::index",         "aten::index_put",        "aten::index_put_", "aten::_index_put_impl", "aten::_index_put_impl_",
      "aten::_unsafe_index", "aten::_unsafe_index_put"};
  if (indexed.count(full.name) > 0) s.indices = 1;
  return s;
}

}  // namespace

const Signature& signature_of(const c10::OperatorHandle& op) {
  static std::mutex mutex;
  static auto& known = *new std::unordered_map<const c10::FunctionSchema*, Signature>;
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known.try_emplace(&op.schema());
  if (is_new) at->second = read_schema(op);
  return at->second;
}

}  // namespace weft::checked_device
