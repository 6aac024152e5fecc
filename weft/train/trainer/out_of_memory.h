// Running out of memory, told in terms of the layout: which category grew, and what would make it smaller.
#pragma once

#include <exception>

#include "weft/engine/memory_ledger.h"

namespace weft {

/// Throws MemoryError if `error`, which is being handled, says that memory ran out; returns otherwise.
void explain_memory_error(const std::exception& error, ShardLevel level);

/// Returns call(), with such an error explained.
template <class Call>
auto explain_memory(const Program& program, const Call& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    explain_memory_error(error, program.shard_level);
    throw;
  }
}

}  // namespace weft
