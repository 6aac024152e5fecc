// Reports running out of memory in terms of the layout: the category that grew, and how to shrink it.
#pragma once

#include <exception>

#include "weft/engine/memory_ledger.h"

namespace weft {

/// True for the error of any allocator.
bool is_out_of_memory(const std::exception& error);

/// Throws MemoryError if `error`, which is being handled, means that memory ran out; returns otherwise.
void explain_memory_error(const std::exception& error, ShardLevel level);

/// Returns call(), with such errors explained.
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
