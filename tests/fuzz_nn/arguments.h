// Random tensors for a row's arguments: valid ones, some of which are then changed in shape, type, strides or device.
#pragma once

#include "tests/fuzz_nn/row.h"

namespace weft::fuzz_nn {

struct Arguments {
  Tensors tensors;
  bool are_good = true;      ///< a call with them must not be refused
  std::string changes = {};  ///< description of the changes
};

Arguments make_arguments(const Spec& spec, const Case& c, test::Random& random);

}  // namespace weft::fuzz_nn
