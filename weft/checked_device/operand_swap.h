// OperandSwap: puts tensors of the CPU in the place of an operator's tensors of the device, and back.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <utility>
#include <vector>

#include "weft/checked_device/memory.h"

namespace c10 {
struct IValue;
}

namespace weft::checked_device {

class OperandSwap {
 public:
  /// `touches`: the operator uses the memory of its arguments, and waits for what other threads move there.
  explicit OperandSwap(bool touches) : touches_(touches) {}

  /// Replaces what `value`, an argument, holds of the device. `writes`: the operator writes it.
  void to_cpu(c10::IValue& value, bool writes);

  /// Replaces what `value`, a result, holds.
  void to_device(c10::IValue& value);

  /// After the kernel: arguments that it has resized or given other memory.
  void take_back();

  /// Notes a tensor of the CPU in an argument: one with dimensions, or that the operator writes.
  void refuse_cpu(const c10::IValue& value, bool writes);

  int device() const;  ///< that of the arguments, else the current one
  bool has_cpu_tensor() const { return has_cpu_tensor_; }
  bool has_device_tensor() const { return device_ >= 0; }

  struct Operand {
    at::Tensor device, cpu;
    c10::Storage backing;
    bool writes = false;
    Allocation* allocation = nullptr;
  };
  const std::vector<Operand>& operands() const { return operands_; }
  const std::vector<Allocation*>& made() const { return made_; }  ///< by the kernel

 private:
  at::Tensor to_cpu(const at::Tensor& tensor, bool writes);
  at::Tensor to_device(const at::Tensor& tensor);
  c10::Storage keep(const c10::Storage& device);  ///< returns the CPU's for it
  c10::Storage device_storage(const c10::Storage& cpu);
  void take_back(Operand& operand);

  std::vector<Operand> operands_;
  std::vector<std::pair<c10::Storage, c10::Storage>> storages_;  ///< of the device, of the CPU
  std::vector<Allocation*> made_;
  const bool touches_;
  int device_ = -1;
  bool has_cpu_tensor_ = false;
};

}  // namespace weft::checked_device
