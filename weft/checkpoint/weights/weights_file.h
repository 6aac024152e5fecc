// WeightsFile: weights that somebody else may have saved, by name: what a model can start from.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace weft {

/// Tensors by name, read one at a time.
class WeightsFile {
 public:
  virtual ~WeightsFile() = default;
  /// Names of the tensors, in order.
  virtual std::vector<std::string> names() const = 0;
  /// The tensor of a name that is there, whole, on the CPU, in its own type.
  virtual at::Tensor read(const std::string& name) = 0;
};

/// Opens weights: a .safetensors file; several of them, by their index (model.safetensors.index.json, as Hugging Face writes
/// it) or the folder that holds it or one such file; a state dict of torch.save() (.pt, .pth, .bin), which is read whole; a
/// checkpoint of weft's, or a folder of some. Throws InputError, naming the file, for anything else.
std::unique_ptr<WeightsFile> open_weights(const std::string& path);

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

}  // namespace weft
