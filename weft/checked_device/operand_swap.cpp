#include "weft/checked_device/operand_swap.h"

#include <ATen/core/List.h>
#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>

#include <optional>

#include "weft/checked_device/generator.h"
#include "weft/checked_device/order.h"

namespace weft::checked_device {

int OperandSwap::device() const { return device_ < 0 ? current_device() : device_; }

void OperandSwap::to_cpu(c10::IValue& value, bool writes) {
  if (value.isTensor()) {
    value = to_cpu(value.toTensor(), writes);
  } else if (value.isTensorList()) {
    std::vector<at::Tensor> list = value.toTensorVector();
    for (at::Tensor& tensor : list) tensor = to_cpu(tensor, writes);
    value = c10::List<at::Tensor>(list);
  } else if (value.isOptionalTensorList()) {
    std::vector<std::optional<at::Tensor>> list = value.toOptionalTensorVector();
    for (std::optional<at::Tensor>& tensor : list) {
      if (tensor.has_value()) tensor = to_cpu(*tensor, writes);
    }
    value = c10::List<std::optional<at::Tensor>>(list);
  } else if (value.isGenerator()) {
    const at::Generator generator = value.toGenerator();
    if (generator.device().type() == kDevice) value = cpu_generator(generator);
  } else if (value.isDevice()) {
    if (value.toDevice().type() != kDevice) return;
    if (device_ < 0) device_ = value.toDevice().index() < 0 ? current_device() : value.toDevice().index();
    value = c10::Device(c10::kCPU);
  } else if (value.isStorage()) {
    const c10::Storage storage = value.toStorage();
    if (storage.device_type() != kDevice) return;
    value = keep(storage);
  }
}

void OperandSwap::refuse_cpu(const c10::IValue& value, bool writes) {
  const auto look = [&](const at::Tensor& tensor) {
    has_cpu_tensor_ |= tensor.defined() && tensor.is_cpu() && (tensor.dim() > 0 || writes);
  };
  if (value.isTensor()) {
    look(value.toTensor());
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    for (const c10::IValue& element : value.toListRef()) {
      if (element.isTensor()) look(element.toTensor());
    }
  }
}

at::Tensor OperandSwap::to_cpu(const at::Tensor& tensor, bool writes) {
  if (!tensor.defined()) return tensor;
  if (!is_on_device(tensor)) {
    return tensor;
  }
  if (device_ < 0) device_ = tensor.device().index();
  TORCH_CHECK(device_ == tensor.device().index(), "checked device: one operator is given tensors of devices ", device_, " and ",
              static_cast<int>(tensor.device().index()));
  Allocation& a = allocation_of(tensor);
  if (touches_) await_movements(a, writes);
  const c10::Storage backing = keep(tensor.storage());
  operands_.push_back({tensor, on_cpu(tensor, backing), backing, writes, &a});
  return operands_.back().cpu;
}

c10::Storage OperandSwap::keep(const c10::Storage& device) {
  for (const auto& [known, backing] : storages_) {
    if (known.unsafeGetStorageImpl() == device.unsafeGetStorageImpl()) return backing;
  }
  return storages_.emplace_back(device, backing_of(device)).second;
}

c10::Storage OperandSwap::device_storage(const c10::Storage& cpu) {
  for (const auto& [known, backing] : storages_) {
    if (backing.unsafeGetStorageImpl() == cpu.unsafeGetStorageImpl()) return known;
  }
  c10::Storage storage(c10::Storage::use_byte_size_t(), cpu.nbytes(), make_allocation(cpu, device()), device_allocator(),
                       /*resizable=*/true);
  storages_.emplace_back(storage, cpu);
  made_.push_back(&allocation_of(*storage.unsafeGetStorageImpl()));
  return storage;
}

void OperandSwap::to_device(c10::IValue& value) {
  if (value.isTensor()) {
    value = to_device(value.toTensor());
  } else if (value.isTensorList()) {
    std::vector<at::Tensor> list = value.toTensorVector();
    for (at::Tensor& tensor : list) tensor = to_device(tensor);
    value = c10::List<at::Tensor>(list);
  }
}

at::Tensor OperandSwap::to_device(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  for (const Operand& operand : operands_) {
    if (operand.cpu.is_same(tensor)) return operand.device;
  }
  auto made = at::detail::make_tensor<c10::TensorImpl>(device_storage(tensor.storage()),
                                                       c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), tensor.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  made._set_conj(tensor.is_conj());
  made._set_neg(tensor.is_neg());
  return made;
}

void OperandSwap::take_back() {
  for (Operand& operand : operands_) {
    if (operand.writes) take_back(operand);
  }
}

void OperandSwap::take_back(Operand& operand) {
  c10::TensorImpl* impl = operand.device.unsafeGetTensorImpl();
  const at::Tensor& cpu = operand.cpu;
  if (cpu.storage().unsafeGetStorageImpl() != operand.backing.unsafeGetStorageImpl()) {
    impl->set_storage_keep_dtype(device_storage(cpu.storage()));
  } else if (operand.backing.nbytes() != operand.device.storage().nbytes()) {  // it has grown
    c10::StorageImpl* storage = operand.device.storage().unsafeGetStorageImpl();
    storage->set_data_ptr_noswap(make_allocation(operand.backing, operand.allocation->device));
    storage->set_nbytes(operand.backing.nbytes());
    operand.allocation = &allocation_of(*storage);
    made_.push_back(operand.allocation);
  }
  if (cpu.sizes() != operand.device.sizes() || cpu.strides() != operand.device.strides() ||
      cpu.storage_offset() != operand.device.storage_offset()) {
    impl->set_sizes_and_strides(cpu.sizes(), cpu.strides(), cpu.storage_offset());
  }
}

}  // namespace weft::checked_device
