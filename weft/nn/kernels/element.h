// Element types of this folder's kernels: float32, and bfloat16, which a kernel reads as float32 and rounds on output.
//
// A kernel does in one pass over memory what LibTorch does in several. It works on rows and pointers, without tensors or
// autograd; its caller divides rows among threads. The order of sums depends only on the shape: threads, ranks and the
// processor's vector width change no bit.
#pragma once

namespace weft {

/// Storage format of elements.
enum class Element { float32, bfloat16 };

}  // namespace weft
