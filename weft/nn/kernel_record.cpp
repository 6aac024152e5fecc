#include "weft/nn/kernel_record.h"

#include <ATen/record_function.h>

#include <utility>
#include <vector>

namespace weft {

KernelRecord::KernelRecord(const char* name, std::initializer_list<at::Tensor> tensors) {
  auto observers = at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION);
  if (!observers) return;
  call_ = std::make_unique<at::RecordFunction>(std::move(*observers));
  const std::vector<c10::IValue> inputs(tensors.begin(), tensors.end());
  call_->before(name, c10::ArrayRef<const c10::IValue>(inputs.data(), inputs.size()));
}

KernelRecord::~KernelRecord() = default;

}  // namespace weft
