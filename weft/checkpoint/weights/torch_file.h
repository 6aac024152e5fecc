// A state dict that torch.save() wrote.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace weft {

/// Reads it whole, by LibTorch's unpickler, which makes tensors, lists and dicts and runs no code. Throws InputError, naming
/// the file, for one that holds anything else.
std::map<std::string, at::Tensor> read_torch_file(const std::string& path);

}  // namespace weft
