// WeightNames: maps names of weights in a file to names in the model.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace weft {

/// Maps names of weights in a file to names in the model.
class WeightNames {
 public:
  /// Identity map.
  WeightNames() = default;
  /// Reads a JSON file: {"name in the file": "name in the model", ...}. Each name may have one '*', which matches the same text
  /// in both: {"transformer.*": "*"}. Throws FileError for any other file.
  static WeightNames from_file(const std::string& path);

  /// Returns the model's name of a weight named `name` in the file: by the first rule that fits, otherwise unchanged.
  std::string in_model(const std::string& name) const;

 private:
  std::vector<std::pair<std::string, std::string>> rules_;
};

/// Removes prefixes and infixes of PyTorch's wrappers from a name: "module." (DataParallel, DDP), "_orig_mod." (torch.compile),
/// "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.".
std::string without_wrappers(const std::string& name);

}  // namespace weft
