// process_memory: CPU tensor memory of a training process. Only for programs that are a rank or a plan, because it changes the
// whole process.
#pragma once

namespace weft {

/// Keeps freed memory for the next tensors. Call once, before the first tensor. A step frees and allocates the same large
/// blocks again and again, which goes wrong in two ways by default:
/// - Each returns to the kernel and comes back zeroed page by page: a tenth of a bf16 step. So freed memory is kept.
/// - LibTorch takes aligned blocks, and glibc before 2.38 cannot reuse a freed one for the same size and alignment, so the heap
/// grows by a sixth. So tensors take plain blocks with room to align, and large ones (64 KiB or more) come from a separate
/// region (large_blocks.h).
void keep_and_reuse_memory();

}  // namespace weft
