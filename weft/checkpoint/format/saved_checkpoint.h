// SavedCheckpoint: reads a checkpoint's tensors one by one, each whole, without ranks or a model.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weft/checkpoint/format/data_reader.h"
#include "weft/checkpoint/format/index.h"
#include "weft/checkpoint/storage/storage.h"

namespace weft {

/// Open checkpoint.
class SavedCheckpoint {
 public:
  /// Opens a checkpoint's folder, or the newest one in a folder of checkpoints. Throws InputError if there is none or its index
  /// is damaged.
  explicit SavedCheckpoint(const std::string& path);

  const std::string& path() const { return path_; }         ///< path of the checkpoint itself, not of the folder above it
  const CheckpointIndex& index() const { return *index_; }  ///< content of the checkpoint
  /// Returns a tensor on the CPU. Throws InputError if it is damaged.
  at::Tensor read(const std::string& name);
  /// Returns [numel], `numel` elements of a tensor, which must exist, flattened row-major, starting at `begin`.
  at::Tensor read(const std::string& name, int64_t begin, int64_t numel);
  /// Reads all files and checks every byte.
  void check();
  /// Names of the model's tensors, without the index's prefix "model/".
  std::vector<std::string> weights() const;
  /// Kinds of the buffers, the untrained tensors among weights(), by name: kConstantBuffer or kCountBuffer.
  std::map<std::string, std::string> buffers() const;

 private:
  std::string path_;
  std::unique_ptr<Storage> storage_;
  std::unique_ptr<const CheckpointIndex> index_;  ///< at a fixed address: the reader refers to it
  std::unique_ptr<DataReader> reader_;
};

/// True if the checkpoint's run kept an average of the weights.
bool has_average(const CheckpointIndex& index);

inline constexpr const char* kModelPrefix = "model/";       ///< prefix of weights in an index
inline constexpr const char* kAgeState = "step";            ///< number of updates of a parameter: "step/NAME"
inline constexpr const char* kAverageState = "ema";         ///< average of a weight: "ema/NAME"
inline constexpr const char* kBuffersEntry = "buffers";     ///< index entry: saved buffers and their kinds
inline constexpr const char* kConstantBuffer = "constant";  ///< unchanged throughout a run
inline constexpr const char* kCountBuffer = "count";        ///< such as BatchNorm's count of forwards

}  // namespace weft
