#include "weft/checkpoint/format/index.h"

#include <fmt/format.h>

#include "weft/base/error.h"

namespace weft {

std::string data_file(int rank) { return fmt::format("data-{:05}.bin", rank); }

void CheckpointIndex::merge(const CheckpointIndex& other) {
  files.insert(other.files.begin(), other.files.end());
  texts.insert(other.texts.begin(), other.texts.end());
  for (const auto& [name, tensor] : other.tensors) {
    StoredState& own = tensors.try_emplace(name, StoredState{tensor.type, tensor.shape, {}}).first->second;
    if (own.type != tensor.type || own.shape != tensor.shape) {
      throw Error(
          fmt::format("checkpoint: ranks have tensor '{}' in different types or shapes; start all ranks with one model", name));
    }
    own.pieces.insert(own.pieces.end(), tensor.pieces.begin(), tensor.pieces.end());
  }
}

int64_t CheckpointIndex::bytes() const {
  int64_t sum = 0;
  for (const auto& [file, bytes] : files) sum += bytes;
  return sum;
}

}  // namespace weft
