// KernelRecord: shows a call of one of weft's CPU kernels to those who observe operators, as the dispatcher shows LibTorch's.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <memory>

namespace at {
struct RecordFunction;
}

namespace weft {

/// The call of a kernel, from its construction to its destruction. Operators called meanwhile are its parts.
class KernelRecord {
 public:
  /// The kernel `name` ("weft::norm"; "..._backward" for a gradient) reads or writes the elements of the defined ones of
  /// `tensors`. Costs nothing unless someone observes this thread (nn/cost/observation.h, engine/operator_log.h).
  KernelRecord(const char* name, std::initializer_list<at::Tensor> tensors);
  ~KernelRecord();
  KernelRecord(const KernelRecord&) = delete;
  KernelRecord& operator=(const KernelRecord&) = delete;

 private:
  std::unique_ptr<at::RecordFunction> call_;
};

}  // namespace weft
