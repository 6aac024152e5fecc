// process_memory: how a process that trains on CPUs takes memory for its tensors. For programs that are ranks and nothing else,
// as it changes the whole process; a host program decides for itself.
#pragma once

namespace weft {

/// Keeps freed memory for the next tensors. To be called once, before the first tensor. A step frees and takes the same large
/// blocks again and again, and of this two things go wrong by default:
/// - Each goes back to the kernel and comes zeroed, page by page, which costs a tenth of a bf16 step. So freed memory is kept.
/// - LibTorch takes aligned blocks, and glibc before 2.38 cannot give a freed one to a request of the same size and alignment.
///   The heap grows around them, by a sixth. So tensors take plain blocks with room to align, and large ones, of 64 KiB or
///   more, come from a region of their own (large_blocks.h).
void keep_and_reuse_memory();

}  // namespace weft
