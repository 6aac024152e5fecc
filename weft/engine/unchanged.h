// What a block's forward must leave as it is: its parameters and its constant buffers, which ranks with other samples would
// change otherwise.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/nn/flat/flat_model.h"

namespace weft {

/// The block's parameters and buffers before a forward; statistics may change, and buffers that count.
class UnchangedState {
 public:
  UnchangedState(FlatModel& model, int block);
  /// Throws InputError, naming block and tensor, where one was changed in place since.
  void check() const;

 private:
  std::span<const ModelBuffer> buffers() const;

  FlatModel& model_;
  int block_;
  std::vector<uint32_t> versions_;
  std::vector<uint32_t> buffer_versions_;
};

}  // namespace weft
