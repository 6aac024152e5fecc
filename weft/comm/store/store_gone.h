// StoreGone: the connection to a store has broken. Whoever knows what it was asked for makes an error of it.
#pragma once

#include <stdexcept>

namespace weft {

/// The text says how it broke.
class StoreGone : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace weft
