// A state dict that torch.save() wrote.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace weft {

/// What is in one.
struct TorchFile {
  std::map<std::string, at::Tensor> tensors;  ///< by name
  std::string nest = {};                      ///< where in it the state dict was: "model"; empty: it is the whole
};

/// Reads it whole, by LibTorch's unpickler, which makes tensors, lists and dicts and runs no code. A state dict under one of
/// the keys that training programs save it by ("model", "state_dict", ...), beside an optimizer and what else they keep, is
/// looked for; entries of it that are no tensors are left out. Throws InputError, naming the file, for anything else.
TorchFile read_torch_file(const std::string& path);

}  // namespace weft
