// WeightsFile: named weights from any source, for a model to start from.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/nn/model_option.h"

namespace weft {

/// Origin of weights.
struct WeightsOrigin {
  std::vector<ModelOption> options = {};  ///< options of the model, if weft saved the weights; empty: unknown
  std::string config = {};                ///< Hugging Face's config.json next to them; empty: absent
  std::vector<std::string> notes = {};    ///< how they were found, if that is not obvious
  std::string state = {};                 ///< of a program's file (base/input_file.h); empty: of others
};

/// Named tensors, read one at a time.
class WeightsFile {
 public:
  virtual ~WeightsFile() = default;
  /// Names of the tensors, in order.
  virtual std::vector<std::string> names() const = 0;
  /// Shape of the named tensor, which must exist.
  virtual std::vector<int64_t> shape(const std::string& name) const = 0;
  /// Returns the named tensor, which must exist, whole, on the CPU, in its own type.
  virtual at::Tensor read(const std::string& name) = 0;
  /// Returns [numel], `numel` elements of that tensor, flattened row-major, starting at `begin`. Reads no other elements,
  /// except those covered by the same checksums.
  virtual at::Tensor read_part(const std::string& name, int64_t begin, int64_t numel) = 0;
  const WeightsOrigin& origin() const { return origin_; }                      ///< where the weights come from
  void set_config(std::string config) { origin_.config = std::move(config); }  ///< sets origin().config

 protected:
  WeightsOrigin origin_;
};

/// Opens weights: a .safetensors file; a state dict of torch.save() (.pt, .pth, .bin), which is read whole; a program of
/// torch.export.save() (.pt2); several of the first two,
/// by their index (model.safetensors.index.json, pytorch_model.bin.index.json, as Hugging Face writes them); a folder that
/// holds an index, model.safetensors, pytorch_model.bin, or all of model-00001-of-00003.safetensors, ...; a weft checkpoint, or
/// a folder of checkpoints. Throws InputError, which says what the file is, for anything else.
std::unique_ptr<WeightsFile> open_weights(const std::string& path);
/// Opens the average of the weights that a checkpoint's run kept, and frozen weights unchanged. Throws InputError if the run
/// kept none.
std::unique_ptr<WeightsFile> open_average(const std::string& path);

}  // namespace weft
