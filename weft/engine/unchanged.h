// What a block's forward must leave as it is: its parameters, which ranks with other samples would change otherwise.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/nn/flat.h"

namespace weft {

/// The block's parameters before a forward; statistics may change.
class UnchangedParameters {
 public:
  UnchangedParameters(FlatModel& model, int block);
  /// Throws InputError, naming block and parameter, where one was changed in place since.
  void check() const;

 private:
  FlatModel& model_;
  int block_;
  std::vector<uint32_t> versions_;
};

}  // namespace weft
