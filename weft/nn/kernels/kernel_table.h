// The kernels of a model's operations on each target device: the one table that planning and layers share.
//
// On a CPU weft's layers run weft's own kernels where they fit a tensor's type and shape, on other devices LibTorch's
// operators, or kernels of weft's own for devices. Costs are measured on the meta device (nn/cost/measure_cost.h), whose
// tensors have no memory and stand for those of a target device: a layer that meets them chooses the target's kernel, so the
// tensors it makes are those of a run there. Which target they stand for is a property of the thread (TargetScope), since
// operators have no argument for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string_view>

#include "weft/base/target_device.h"
#include "weft/nn/target_scope.h"

namespace weft {

/// Operations whose kernel depends on the device.
enum class ModelOperation : uint8_t {
  attention,           ///< causal attention of a whole sequence
  document_attention,  ///< the same within packed documents
  partial_attention,   ///< attention over a part of the keys, with sequences shared by ranks
  batch_norm,
  convolution,
  cross_entropy,
  element_wise,  ///< activation functions and sums of columns
  norm,          ///< layer norm and RMS norm
  rotary,
};
inline constexpr size_t kOperations = 9;  ///< number of operations

/// Whose kernel computes an operation.
enum class KernelKind : uint8_t {
  weft,       ///< weft's own, of this folder
  operators,  ///< one or more of LibTorch's operators
  fused,      ///< LibTorch's single operator for the whole, where it takes the tensors; otherwise its formula
  device,     ///< weft's own for devices (nn/device_kernels)
};

/// What an operation takes on a device, apart from its inputs, output and gradients.
struct OperationKernel {
  KernelKind kernel;
  std::string_view keeps;    ///< for backward
  std::string_view scratch;  ///< while it runs
};

/// A row of the table.
struct OperationRow {
  std::string_view name;
  std::array<OperationKernel, kTargetDevices.size()> on;  ///< by TargetDevice
};

/// The row of an operation.
const OperationRow& row_of(ModelOperation operation);

/// Returns whether weft's own kernel computes the operation for tensors on `device`, if it fits them otherwise.
bool has_weft_kernel(ModelOperation operation, at::Device device);

/// Returns whether weft's own device kernel computes the operation for x, which has elements of a type that it takes, if it
/// fits otherwise: also on a CPU where operators are forced.
bool has_device_kernel(ModelOperation operation, const at::Tensor& x);

/// Returns whether x has elements that a kernel can read or write: none if it is undefined, empty or on the meta device.
bool has_elements(const at::Tensor& x);

}  // namespace weft
