// Operators on tensors of the device: the CPU's kernel runs on the same bytes, and its use of memory is checked.
#pragma once

namespace weft::checked_device {

/// Gives every operator that has a CPU kernel to the device, by name: a composite kernel for other devices has other bits. All
/// others get it as a fallback. Also the device's own kernels: new tensors, copies, record_stream.
void register_operators();

}  // namespace weft::checked_device
