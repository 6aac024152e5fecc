// What a Store holds: the c10d store. Only sources that speak to c10d include this.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "weft/comm/store.h"

namespace weft {

struct Store::Connection {
  c10::intrusive_ptr<c10d::Store> store;
};

}  // namespace weft
