// Shapes on the meta device for operations whose meta kernels LibTorch has only in Python.
#pragma once

namespace weft {

/// Adds the missing kernels to LibTorch's dispatcher, once per process: abs, relu, where, index_select, the layer and batch
/// norms, convolution, embedding's backward and the CPU's flash attention; and weft's clamping of ids. They make empty tensors
/// of the right shapes and never run on data.
void register_meta_kernels();

}  // namespace weft
