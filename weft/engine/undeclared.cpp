#include "weft/engine/undeclared.h"

#include <ATen/core/function_schema.h>
#include <ATen/record_function.h>
#include <fmt/core.h>

#include <unordered_set>

#include "weft/nn/each_tensor.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

struct ReadsSeen {
  void know(const at::Tensor& tensor) {
    if (tensor.defined() && tensor.has_storage()) known.insert(tensor.storage().unsafeGetStorageImpl());
  }
  bool knows(const at::Tensor& tensor) const { return known.count(tensor.storage().unsafeGetStorageImpl()) != 0; }

  void read(const at::Tensor& tensor, const at::RecordFunction& fn, size_t argument) {
    const bool is_trained = tensor.requires_grad() && tensor.is_leaf();
    const bool has_no_memory = tensor.is_meta() && !is_meta;
    if (!first.empty() || (!is_trained && !has_no_memory) || knows(tensor)) return;
    const auto schema = fn.operator_schema();
    const std::string name =
        schema && argument < schema->arguments().size() ? fmt::format("'{}' of ", schema->arguments()[argument].name()) : "";
    first = fmt::format("{}, {}{}", type_and_shape(tensor), name, fn.name());
  }

  std::unordered_set<const c10::StorageImpl*> known;  ///< storages of the model, the inputs and tensors made from them
  bool is_meta = false;                               ///< the model is on the meta device
  std::string first;
  at::CallbackHandle handle = 0;
};

namespace {

// The dispatcher's observer takes no user argument.
thread_local ReadsSeen* watching = nullptr;

std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& fn) {
  if (!watching) return nullptr;
  for (size_t i = 0; i < fn.inputs().size(); ++i) {
    each_tensor(fn.inputs()[i], [&](const at::Tensor& tensor) { watching->read(tensor, fn, i); });
  }
  return nullptr;
}

void after(const at::RecordFunction& fn, at::ObserverContext* /*context*/) {
  if (!watching) return;
  for (const c10::IValue& output : fn.outputs()) each_tensor(output, [](const at::Tensor& made) { watching->know(made); });
}

}  // namespace

UndeclaredReads::UndeclaredReads(const FlatModel& model, const Tensors& inputs) : seen_(std::make_unique<ReadsSeen>()) {
  seen_->is_meta = model.options().device.is_meta();
  for (const Param& param : model.params()) {
    if (!param.parameter) continue;
    seen_->know(param.parameter->value);
    seen_->know(param.parameter->gradient);
  }
  for (const at::Tensor& input : inputs) seen_->know(input);
  watching = seen_.get();
  seen_->handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(before, after).needsInputs(true).needsOutputs(true).scopes({at::RecordScope::FUNCTION}));
}

UndeclaredReads::~UndeclaredReads() {
  at::removeCallback(seen_->handle);
  watching = nullptr;
}

const std::string& UndeclaredReads::first() const { return seen_->first; }

}  // namespace weft
