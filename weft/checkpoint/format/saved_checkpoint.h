// SavedCheckpoint: a checkpoint that is read tensor by tensor, whole, without ranks or a model.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weft/checkpoint/format/data_reader.h"
#include "weft/checkpoint/format/index.h"
#include "weft/checkpoint/storage/storage.h"

namespace weft {

/// An open checkpoint.
class SavedCheckpoint {
 public:
  /// Opens a checkpoint's folder, or the newest one in a folder of some. Throws InputError where there is none, or its index is
  /// damaged.
  explicit SavedCheckpoint(const std::string& path);

  const std::string& path() const { return path_; }         ///< of the checkpoint itself
  const CheckpointIndex& index() const { return *index_; }  ///< what is in it
  /// A tensor, on the CPU. Throws InputError where it is damaged.
  at::Tensor read(const std::string& name);
  /// [numel], `numel` elements of a tensor that is there, flattened row-major, from `begin` on.
  at::Tensor read(const std::string& name, int64_t begin, int64_t numel);
  /// Reads all files and checks every byte.
  void check();
  /// The names of the model's tensors, without the "model/" that the index has before them.
  std::vector<std::string> weights() const;
  /// Which of them are buffers that are not trained, by name: kConstantBuffer or kCountBuffer.
  std::map<std::string, std::string> buffers() const;

 private:
  std::string path_;
  std::unique_ptr<Storage> storage_;
  std::unique_ptr<const CheckpointIndex> index_;  ///< stays where it is: the reader knows it
  std::unique_ptr<DataReader> reader_;
};

/// Whether the run of a checkpoint kept an average of the weights.
bool has_average(const CheckpointIndex& index);

inline constexpr const char* kModelPrefix = "model/";       ///< of weights in an index
inline constexpr const char* kAgeState = "step";            ///< how many updates a parameter has taken: "step/NAME"
inline constexpr const char* kAverageState = "ema";         ///< the state that is their average: "ema/NAME"
inline constexpr const char* kBuffersEntry = "buffers";     ///< of an index: the buffers that are saved, and their kinds
inline constexpr const char* kConstantBuffer = "constant";  ///< the same from the start of a run to its end
inline constexpr const char* kCountBuffer = "count";        ///< such as BatchNorm's count of forwards

}  // namespace weft
