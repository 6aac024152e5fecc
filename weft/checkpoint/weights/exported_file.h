// ExportedFile: a program that torch.export.save() has written (.pt2): a zip archive of a JSON graph and raw weights. This file
// reads the archive; weft/exported runs the graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/checkpoint/weights/zip_file.h"

namespace weft {

/// A weight or constant in the archive. Tied weights have one record.
struct ExportedTensor {
  std::string record;                ///< name of its record
  at::ScalarType type = at::kFloat;  ///< element type
  std::vector<int64_t> shape;        ///< its elements are contiguous
  bool is_parameter = false;         ///< otherwise a buffer or constant
  bool is_trained = false;           ///< a parameter with requires_grad
};

/// Tensors by their names in the module, in its order.
using ExportedTensors = std::vector<std::pair<std::string, ExportedTensor>>;

/// Returns the named one; null if there is none.
const ExportedTensor* find(const ExportedTensors& tensors, const std::string& name);

/// Returns the type with that number in torch.export's files, which are not ATen's; nullopt for an unknown one.
std::optional<at::ScalarType> exported_type(int64_t number);

/// Returns whether the file is such a program, or a damaged archive whose name ends as theirs do; false for any other.
bool is_exported_file(const std::string& path);

/// The archive, checked: each tensor's shape fits its record.
class ExportedFile {
 public:
  /// Throws FileError for a damaged archive, one of another format, and tensors that are not plain.
  explicit ExportedFile(const std::string& path);

  const std::string& path() const { return archive_.path(); }  ///< as given
  std::string state() const { return archive_.state(); }       ///< of the file now (base/input_file.h)
  /// The program as JSON text (torch/_export/serde/schema.py).
  std::string program();
  const ExportedTensors& weights() const { return weights_; }      ///< parameters and buffers, tied ones under each name
  const ExportedTensors& constants() const { return constants_; }  ///< also buffers that are not persistent
  /// The tensor's values, on the CPU. Throws FileError for a damaged record.
  at::Tensor read(const ExportedTensor& tensor);

 private:
  ExportedTensors read_config(const std::string& folder, const std::string& name);
  void check(const std::string& name, const ExportedTensor& tensor) const;

  ZipFile archive_;
  ExportedTensors weights_, constants_;
};

}  // namespace weft
