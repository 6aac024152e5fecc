#include "weft/checked_device/operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/checked_device/generator.h"
#include "weft/checked_device/kernels.h"
#include "weft/checked_device/memory.h"
#include "weft/checked_device/movements.h"
#include "weft/checked_device/operand_swap.h"
#include "weft/checked_device/order.h"
#include "weft/checked_device/recorder.h"
#include "weft/checked_device/signatures.h"

namespace weft::checked_device {

namespace {

Access check_operands(const OperandSwap& swap, int actor, const char* name) {
  const std::lock_guard lock(order_mutex());
  const Access now = begin_launch(actor, name);
  for (const OperandSwap::Operand& operand : swap.operands()) {
    check_access(*operand.allocation, ranges_of(operand.device), operand.writes, now);
  }
  return now;
}

void keep_results(const OperandSwap& swap, const Access& now) {
  const std::lock_guard lock(order_mutex());
  for (Allocation* allocation : swap.made()) check_access(*allocation, {{0, allocation->bytes}}, true, now);
}

/// For devices outside LibTorch, convolutions have operators of their own, which the CPU does not have: it runs the general
/// ones.
void run_kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  static const c10::OperatorHandle forward = c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution", "");
  static const c10::OperatorHandle backward = c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution_backward", "");
  const std::string& name = op.schema().name();
  const bool is_backward = name == "aten::convolution_backward_overrideable";
  if (is_backward) {  // which has no sizes of the bias
    const auto arguments = stack->end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size());
    stack->insert(arguments + 3, c10::IntArrayRef{arguments->toTensor().size(1)});
  }
  const c10::OperatorHandle& kernel = is_backward ? backward : name == "aten::convolution_overrideable" ? forward : op;
  kernel.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

/// Whether there are booleans among the indices, whose number of results depends on values.
bool has_masks(const c10::IValue& indices) {
  for (const c10::IValue& index : indices.toListRef()) {
    if (!index.isTensor() || !index.toTensor().defined()) continue;
    const at::ScalarType type = index.toTensor().scalar_type();
    if (type == at::kBool || type == at::kByte) return true;
  }
  return false;
}

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

using Values = std::vector<c10::IValue>;

Values aliases_of(const Values& stack, size_t count) {
  Values all;
  for (size_t i = stack.size() - count; i < stack.size(); ++i) all.push_back(alias_of(stack[i]));
  return all;
}

/// Whether it draws random numbers. Attention does not with a dropout of 0.
bool draws(const c10::OperatorHandle& op, const Signature& signature, const c10::IValue* arguments) {
  if (!signature.draws && !signature.generator.has_value()) return false;
  const std::optional<int> dropout = op.schema().argumentIndexWithName("dropout_p");
  return !dropout || arguments[*dropout].toDouble() != 0.0;
}

/// Keeps an operator that has run, for a Recording.
void record(Recorder& recorder, const c10::OperatorHandle& op, const Signature& signature, Values given, Values returned) {
  const std::lock_guard lock(order_mutex());
  std::string text = signature.name;
  for (const c10::IValue& value : given) text += (value.isNone() ? "; none" : "; " + recorder.text_of(value));
  text += ":";
  for (const c10::IValue& value : returned) text += " " + recorder.text_of(value);
  if (recorder.is_graph() && draws(op, signature, given.data())) {
    recorder.refuse(text + " draws the same numbers each time");
  }
  const auto again = [op, name = signature.name, given = std::move(given), returned = std::move(returned),
                      device = recorder.device()] {
    Values stack = aliases_of(given, given.size());
    run_on_cpu(op, &stack);
    for (size_t i = 0; i < returned.size(); ++i) put_back(returned[i], stack[i], actor_of(current_stream(device)), name);
  };
  recorder.add(std::move(text), again);
}

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const Signature& signature = signature_of(op);
  const size_t arguments = op.schema().arguments().size(), begin = stack->size() - arguments;
  const bool recorded = records() && !signature.is_view;
  Values given = recorded ? aliases_of(*stack, arguments) : Values();
  OperandSwap swap(!signature.is_view);
  bool waits = signature.waits;
  for (size_t i = 0; i < arguments; ++i) {
    c10::IValue& argument = (*stack)[begin + i];
    if (i == signature.indices) {
      waits |= has_masks(argument);
    } else {
      swap.refuse_cpu(argument, signature.writes[i]);
    }
    swap.to_cpu(argument, signature.writes[i]);
  }
  TORCH_CHECK(!swap.has_cpu_tensor() || !swap.has_device_tensor(), "checked device: ", signature.name,
              " is given tensors of the CPU and of device ", swap.device());
  if (signature.generator.has_value() && (*stack)[begin + *signature.generator].isNone()) {
    (*stack)[begin + *signature.generator] = cpu_generator(default_generator(swap.device()));
  }
  const int actor = actor_of(current_stream(swap.device()));
  Access now;
  if (!signature.is_view) now = check_operands(swap, actor, signature.name);
  {
    const RunningOperator running(signature.name);
    std::optional<DefaultGeneratorScope> generator;
    if (signature.draws && draws(op, signature, &(*stack)[begin])) generator.emplace(swap.device());
    run_kernel(op, stack);
    swap.take_back();
    const size_t results = op.schema().returns().size();
    for (size_t i = stack->size() - results; i < stack->size(); ++i) swap.to_device((*stack)[i]);
  }
  if (!signature.is_view) keep_results(swap, now);
  if (Recorder* recorder = recorded ? recorder_on(swap.device()) : nullptr) {
    record(*recorder, op, signature, std::move(given), aliases_of(*stack, op.schema().returns().size()));
  }
  if (waits) wait_on_host(clock_now(actor), swap.device(), signature.name);
}

/// The device's part of an operator namespace, for good.
torch::Library& library(const std::string& name) {
  static auto& all = *new std::map<std::string, torch::Library>;
  auto at = all.find(name);
  if (at == all.end()) {
    at = all.emplace(name, torch::Library(torch::Library::IMPL, name, c10::DispatchKey::PrivateUse1, __FILE__, __LINE__)).first;
  }
  return at->second;
}

}  // namespace

void register_operators() {
  torch::Library& aten = library("aten");
  aten.impl("empty.memory_format", empty);
  aten.impl("empty_strided", empty_strided);
  aten.impl("_copy_from", copy_from);
  aten.impl("_copy_from_and_resize", copy_from_and_resize);
  aten.impl("record_stream", record_stream);
  for (const char* name : {"convolution_overrideable", "convolution_backward_overrideable"}) {
    aten.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
  }
  // One kernel on CUDA, but made of other operators for devices outside LibTorch.
  aten.impl("_foreach_copy_", torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
  // Their fallbacks would copy by this operator, without end.
  static torch::Library conjugated(torch::Library::IMPL, "aten", c10::DispatchKey::Conjugate, __FILE__, __LINE__);
  static torch::Library negated(torch::Library::IMPL, "aten", c10::DispatchKey::Negative, __FILE__, __LINE__);
  for (torch::Library* views : {&conjugated, &negated}) views->impl("_copy_from", torch::CppFunction::makeFallthrough());
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNamesForDispatchKey(c10::DispatchKey::CPU)) {
    const auto op = dispatcher.findSchema(name);
    if (!op.has_value() || op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) continue;
    const size_t colons = name.name.find("::");
    std::string local = name.name.substr(colons + 2);
    if (!name.overload_name.empty()) local += "." + name.overload_name;
    library(name.name.substr(0, colons)).impl(local.c_str(), torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
  }
  library("_").fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}

}  // namespace weft::checked_device
