// WeightsFile: weights that somebody else may have saved, by name: what a model can start from.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/nn/model_option.h"

namespace weft {

/// What is known of weights beside their values.
struct WeightsOrigin {
  std::vector<ModelOption> options = {};  ///< of the model that they are of, where weft saved them; empty: not told
  std::string config = {};                ///< Hugging Face's config.json that lies beside them; empty: none does
  std::vector<std::string> notes = {};    ///< how they were found, where that is not plain to see
};

/// Tensors by name, read one at a time.
class WeightsFile {
 public:
  virtual ~WeightsFile() = default;
  /// Names of the tensors, in order.
  virtual std::vector<std::string> names() const = 0;
  /// The shape of a tensor of a name that is there.
  virtual std::vector<int64_t> shape(const std::string& name) const = 0;
  /// The tensor of a name that is there, whole, on the CPU, in its own type.
  virtual at::Tensor read(const std::string& name) = 0;
  /// [numel], `numel` of its elements, flattened row-major, from `begin` on; no others are read, but what has a checksum with
  /// them.
  virtual at::Tensor read_part(const std::string& name, int64_t begin, int64_t numel) = 0;
  const WeightsOrigin& origin() const { return origin_; }                      ///< beside them
  void set_config(std::string config) { origin_.config = std::move(config); }  ///< of origin()

 protected:
  WeightsOrigin origin_;
};

/// Opens weights: a .safetensors file; a state dict of torch.save() (.pt, .pth, .bin), which is read whole; several of either,
/// by their index (model.safetensors.index.json, pytorch_model.bin.index.json, as Hugging Face writes them); a folder that
/// holds an index, model.safetensors, pytorch_model.bin, or all of model-00001-of-00003.safetensors, ...; a checkpoint of
/// weft's, or a folder of some. Throws InputError, which says what the file is, for anything else.
std::unique_ptr<WeightsFile> open_weights(const std::string& path);
/// The average of the weights that the run of a checkpoint kept; of frozen ones themselves. Throws InputError where it kept
/// none.
std::unique_ptr<WeightsFile> open_average(const std::string& path);

}  // namespace weft
