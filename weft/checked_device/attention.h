// Scaled dot product attention as one operator of the device. It computes what the CPU's does, and keeps and takes the memory
// of CUDA's: flash attention for bfloat16 and float16, memory-efficient attention for float32.
#pragma once

namespace weft::checked_device {

/// Lets at::scaled_dot_product_attention choose the operator where the CPU has a kernel, otherwise its formula.
void register_attention();

}  // namespace weft::checked_device
