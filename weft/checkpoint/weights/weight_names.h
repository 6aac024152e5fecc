// WeightNames: what weights are called in a file, for names that differ from the model's.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace weft {

/// What weights are called in a file, for names that differ from the model's.
class WeightNames {
 public:
  /// They are called the same.
  WeightNames() = default;
  /// As a JSON file says: {"name in the file": "name in the model", ...}. Each may have one '*', which stands for the same text
  /// in both: {"transformer.*": "*"}. Throws FileError for another file.
  static WeightNames from_file(const std::string& path);

  /// The model's name of a weight that the file calls `name`: by the first rule that fits, else the same.
  std::string in_model(const std::string& name) const;

 private:
  std::vector<std::pair<std::string, std::string>> rules_;
};

/// A name without what wrappers of PyTorch put before and into it: "module." (DataParallel, DDP), "_orig_mod." (torch.compile),
/// "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.".
std::string without_wrappers(const std::string& name);

}  // namespace weft
