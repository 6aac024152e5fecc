// State that a block's forward must not change: parameters and constant buffers. They would diverge between ranks with
// different samples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/nn/flat/flat_model.h"

namespace weft {

/// The block's parameters and buffers before a forward, except statistics and counting buffers, which may change.
class UnchangedState {
 public:
  UnchangedState(FlatModel& model, int block);
  /// Throws InputError naming block and tensor if one was changed in place since.
  void check() const;

 private:
  std::span<const ModelBuffer> buffers() const;

  FlatModel& model_;
  int block_;
  std::vector<uint32_t> versions_;
  std::vector<uint32_t> buffer_versions_;
};

}  // namespace weft
