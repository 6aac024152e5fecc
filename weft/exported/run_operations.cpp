#include <ATen/core/List.h>
#include <ATen/ops/movedim.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <exception>
#include <new>
#include <stdexcept>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/exported/operation.h"
#include "weft/exported/run_split.h"
#include "weft/nn/layers/dropout.h"

namespace weft {
namespace {

using Slots = std::vector<c10::IValue>;

at::Tensor wrapped_number(const c10::IValue& number) {
  const at::ScalarType type = number.isInt() ? at::kLong : at::kDouble;
  at::Tensor tensor = at::scalar_tensor(number.toScalar(), at::TensorOptions(type));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

c10::IValue listed(const Operand& operand, const Slots& slots) {
  if (operand.kind == Operand::Kind::integers) {
    std::vector<int64_t> list;
    list.reserve(operand.slots.size());
    for (size_t i = 0; i < operand.slots.size(); ++i) {
      list.push_back(operand.slots[i] < 0 ? operand.integers[i] : slots[operand.slots[i]].toInt());
    }
    return list;
  }
  if (operand.kind == Operand::Kind::tensors) {
    std::vector<at::Tensor> list;
    list.reserve(operand.slots.size());
    for (const int slot : operand.slots) list.push_back(slots[slot].toTensor());
    return list;
  }
  c10::List<std::optional<at::Tensor>> list;
  for (const int slot : operand.slots) list.push_back(slot < 0 ? std::optional<at::Tensor>() : slots[slot].toTensor());
  return list;
}

c10::IValue value_of(const Operand& operand, const Slots& slots, const OperationScope& scope) {
  using Kind = Operand::Kind;
  switch (operand.kind) {
    case Kind::constant:
      return operand.constant;
    case Kind::value:
      return slots[operand.slots.front()];
    case Kind::wrapped:
      return wrapped_number(slots[operand.slots.front()]);
    case Kind::device:
      return scope.device;
    case Kind::working_type:
      return static_cast<int64_t>(scope.working_type);
    case Kind::training:
      return scope.context.training;
    case Kind::training_share:
      return scope.context.training ? operand.constant : c10::IValue(0.0);
    default:
      return listed(operand, slots);
  }
}

/// Samples lead while the mask is drawn, so that its elements do not depend on the micro-batch.
at::Tensor dropped(const Operation& x, const at::Tensor& given, double p, const OperationScope& scope) {
  const at::Tensor led = x.dim == 0 ? given : given.movedim(x.dim, 0);
  const bool is_part = x.split && x.split->dim >= 0 && scope.context.tp.size() > 1;
  const auto whole = [&] {
    const at::Tensor rows = x.factor == 1 ? led : led.reshape({led.size(0) / x.factor, -1});
    return dropout(rows, p, scope.context, x.name).reshape(led.sizes());
  };
  const at::Tensor shaped = is_part ? dropout_of_part(x, led, p, scope) : whole();
  return x.dim == 0 ? shaped : shaped.movedim(0, x.dim);
}

at::Tensor keyed_dropout(const Operation& x, const std::vector<c10::IValue>& in, const OperationScope& scope) {
  return in[2].toBool() && in[1].toDouble() > 0.0 ? dropped(x, in[0].toTensor(), in[1].toDouble(), scope) : in[0].toTensor();
}

/// Fills the mask of stochastic depth: one with the given probability, else zero.
at::Tensor sample_mask(const Operation& x, const std::vector<c10::IValue>& in, const OperationScope& scope) {
  const at::Tensor& mask = in[0].toTensor();
  if (!scope.context.training) return mask.fill_(x.evaluated);
  const at::Tensor ones = at::ones(mask.sizes(), mask.options().dtype(at::kFloat));
  return mask.copy_(dropped(x, ones, 1.0 - in[1].toDouble(), scope).ne(0.0));
}

void put_outputs(const Operation& x, std::vector<c10::IValue>&& results, Slots& slots) {
  if (x.returns_list) {
    const std::vector<at::Tensor> list = results.at(0).toTensorVector();
    results.assign(list.begin(), list.end());
  }
  if (results.size() < x.outputs.size())
    throw InputError(fmt::format("it returns {} values, the file names {}", results.size(), x.outputs.size()));
  for (size_t i = 0; i < x.outputs.size(); ++i) {
    if (x.outputs[i] >= 0) slots[x.outputs[i]] = std::move(results[i]);
  }
}

/// Each element once: a view may have them more often than there is time for.
void clear(const at::Tensor& made) {
  const auto numel = static_cast<int64_t>(made.storage().nbytes() / made.element_size());
  made.as_strided({numel}, {1}, 0).zero_();
}

void run_one(const Operation& x, Slots& slots, const OperationScope& scope) {
  using Kind = Operation::Kind;
  const c10::AutoGradMode mode(c10::GradMode::is_enabled() && !x.no_grad);
  std::vector<c10::IValue> stack;
  stack.reserve(x.operands.size());
  for (const Operand& operand : x.operands) stack.push_back(value_of(operand, slots, scope));
  const bool is_split = x.split && scope.context.tp.size() > 1;
  if (is_split) take_parts(x, stack, scope);
  switch (x.kind) {
    case Kind::samples:
      stack = {arithmetic("_operator.mul", {scope.samples, x.factor})};
      break;
    case Kind::arithmetic:
      stack = {arithmetic(x.target, stack)};
      break;
    case Kind::dropout:
      stack = {keyed_dropout(x, stack, scope)};
      break;
    case Kind::sample_mask:
      stack = {sample_mask(x, stack, scope)};
      break;
    case Kind::call:
      apply_type_rule(x.types, stack);
      if (x.check != nullptr) x.check(stack);
      if (is_split && x.split->layer != SplitCall::Layer::none)
        stack = {split_layer(x, stack, scope)};
      else
        x.handle->callBoxed(stack);
      if (x.clears) clear(stack.front().toTensor());
  }
  put_outputs(x, std::move(stack), slots);
}

}  // namespace

void run_operations(const std::vector<Operation>& operations, std::vector<c10::IValue>& slots, const OperationScope& scope) {
  for (const Operation& x : operations) {
    const auto where = [&] {
      return fmt::format("operator {} ('{}') of {}", shortened(x.target), shortened(x.name), scope.path);
    };
    try {
      run_one(x, slots, scope);
    } catch (c10::Error& error) {
      error.add_context(where());
      throw;
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", where(), error.what()));
    } catch (const Error&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::length_error&) {
      throw InputError(fmt::format("{}: it would make a list of absurd length; export it again", where()));
    } catch (const std::exception& error) {  // of a library below LibTorch, such as oneDNN
      throw InputError(fmt::format("{}: {}", where(), shortened(error.what())));
    }
    for (const int slot : x.frees) {
      slots[slot] = c10::IValue();
      scope.copies.erase(slot);
    }
  }
}

}  // namespace weft
