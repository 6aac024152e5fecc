// What the kernels of this folder compute on: float32, and bfloat16 that is float32 inside a kernel and rounded where it goes
// out.
//
// A kernel makes in one pass over memory what LibTorch makes in several. It knows rows and pointers, no tensors and no
// autograd; what calls it divides rows among threads. Sums are made in an order that the shape alone decides: threads, ranks
// and the width of a processor's vectors change no bit.
#pragma once

namespace weft {

/// How elements lie in memory.
enum class Element { float32, bfloat16 };

}  // namespace weft
