// Reads a state dict written by torch.save().
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace weft {

/// Content of such a file.
struct TorchFile {
  std::map<std::string, at::Tensor> tensors;  ///< by name
  std::string nest = {};                      ///< key path of the state dict in the file: "model"; empty: it is the whole file
};

/// Reads the whole file with LibTorch's unpickler, which makes tensors, lists and dicts and runs no code. Also finds a state
/// dict under the keys that training programs use ("model", "state_dict", ...), among an optimizer's state and other entries.
/// Skips its entries that are not tensors. Throws InputError, naming the file, for anything else.
TorchFile read_torch_file(const std::string& path);

}  // namespace weft
