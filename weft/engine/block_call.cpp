#include "weft/engine/block_call.h"

#include <c10/util/Exception.h>
#include <fmt/core.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/error.h"
#include "weft/engine/keyed_calls.h"
#include "weft/engine/unchanged.h"
#include "weft/engine/undeclared.h"
#include "weft/nn/graph.h"
#include "weft/nn/tensor_checks.h"
#include "weft/nn/torch_text.h"

namespace weft {

namespace {

std::string in_forward(const std::string& block, std::string_view what) {
  return fmt::format("the forward of block '{}': {}", block, what);
}

/// "Float [8, 4], Long [8]"
std::string text_of(const Tensors& tensors) {
  std::string text;
  for (const at::Tensor& tensor : tensors) text += (text.empty() ? "" : ", ") + type_and_shape(tensor);
  return text;
}

/// A device reads sum and count where they are.
void check_loss(LossValue& value, const Tensors& outputs) {
  const at::Tensor& counted = value.count.on_device();
  if (!value.sum.defined() || value.sum.numel() != 1) {
    throw InputError(fmt::format("loss: LossValue::sum must be one number, not {}", type_and_shape(value.sum)));
  }
  if (counted.defined() && (counted.numel() != 1 || counted.scalar_type() != at::kLong)) {
    throw InputError(fmt::format("loss: LossValue::count must be one int64, not {}", type_and_shape(counted)));
  }
  if (value.weight.defined() && (value.weight.numel() != 1 || !value.weight.is_floating_point())) {
    throw InputError(fmt::format("loss: LossValue::weight must be one float number, not {}", type_and_shape(value.weight)));
  }
  if (value.weight.defined() && value.weight.is_cpu()) {
    const double weight = value.weight.item<double>();
    if (!std::isfinite(weight) || weight < 0.0)
      throw InputError(fmt::format("loss: the sum of its weights is {}; it must be a number from 0", weight));
  }
  constexpr int64_t kMostTargets = int64_t{1} << 40;  // sums over all ranks and micro-batches do not overflow
  const bool is_known = !counted.defined() || counted.is_cpu();
  if (const int64_t count = is_known ? int64_t{value.count} : 0; count < 0 || count > kMostTargets)
    throw InputError(fmt::format("loss: its count of targets is {}; it must be from 0 to 2^40", count));
  if (outputs.empty() || !outputs.front().defined() || outputs.front().is_cpu()) return;
  const at::Device device = outputs.front().device();
  if (value.sum.device() != device) value.sum = value.sum.to(device);
  if (counted.defined() && counted.device() != device) value.count = counted.to(device);
  if (value.weight.defined() && value.weight.device() != device) value.weight = value.weight.to(device);
}

InputError undeclared(const std::string& block, std::string_view what) {
  return InputError(
      fmt::format("model: the forward of block '{}' reads a parameter missing from its parameters() ({}); add it there (as by "
                  "LAYER.describe(specs, NAME)), or keep a constant without requires_grad in buffers()",
                  block, what));
}

}  // namespace

BlockCalls::BlockCalls(FlatModel& model) : model_(model), checked_(static_cast<size_t>(model.num_blocks())) {}

/// Adds the block's name and its inputs to the errors that its forward throws.
Tensors BlockCalls::named_forward(int block, const Tensors& inputs, const Context& context) {
  const std::string& name = model_.model().blocks[block].name;
  Tensors outputs;
  const IdChecks::Scope scope(ids, context, name);
  try {
    keyed_call(model_, block, context, "", [&] { outputs = without_gaps(model_.block(block).forward(inputs, context)); });
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const InputError& error) {
    const std::string_view text = error.what();
    if (text.find(fmt::format("block '{}'", name)) != std::string_view::npos) throw;
    throw InputError(in_forward(name, text));
  } catch (const c10::Error& error) {
    const std::string text = fmt::format("{} (inputs: {})", torch_text(error), text_of(inputs));
    if (text.find("more than 1 value per channel") == std::string::npos) throw Error(in_forward(name, text));
    throw InputError(in_forward(name, text + "; make micro-batches larger (batch.micro)"));
  }
  return outputs;
}

Tensors BlockCalls::first_forward(int block, const Tensors& inputs, const Context& context) {
  const std::string& name = model_.model().blocks[block].name;
  const UndeclaredReads reads(model_, inputs);
  Tensors outputs;
  try {
    outputs = named_forward(block, inputs, context);
  } catch (const Error& error) {
    if (!reads.first().empty()) throw undeclared(name, reads.first());
    // Parameters that no block declares stay on the meta device; see TensorChecks.
    std::string_view text = error.what();
    if (model_.options().device.is_meta() || text.find(" on meta") == std::string_view::npos) throw;
    if (const std::string where = in_forward(name, ""); text.starts_with(where)) text.remove_prefix(where.size());
    throw undeclared(name, text);
  }
  if (!reads.first().empty()) throw undeclared(name, reads.first());
  checked_[static_cast<size_t>(block)] = true;
  return outputs;
}

/// Inputs may be used again, or share memory with the user's batch. Autograd detects changes only where it needs a gradient.
Tensors BlockCalls::forward(int block, const Tensors& inputs, const Context& context) {
  const UnchangedState state(model_, block);
  std::vector<uint32_t> before;
  for (const at::Tensor& input : inputs) before.push_back(version_of(input));
  const bool looked_at = checked_[static_cast<size_t>(block)];
  Tensors outputs = looked_at ? named_forward(block, inputs, context) : first_forward(block, inputs, context);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (version_of(inputs[i]) == before[i]) continue;
    throw InputError(fmt::format("model: the forward of block '{}' changed its input {} in place; make a new tensor instead",
                                 model_.model().blocks[block].name, i));
  }
  state.check();
  return outputs;
}

LossValue BlockCalls::loss(const Loss& loss, const Tensors& outputs, const at::Tensor& target, const Context& context,
                           const Context& keyed) {
  LossValue value;
  const IdChecks::Scope scope(ids, keyed, "the loss");
  try {
    keyed_loss_call(model_, keyed, "", [&] { value = loss(outputs, target, context); });
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    throw InputError(
        fmt::format("loss: {} (outputs: {}; target: {})", torch_text(error), text_of(outputs), type_and_shape(target)));
  }
  check_loss(value, outputs);
  return value;
}

}  // namespace weft
