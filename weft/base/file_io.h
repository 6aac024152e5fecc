// Reads and writes a whole file range; a single system call may stop early, and moves at most 2 GiB.
#pragma once

#include <cstdint>

namespace weft {

/// Reads [offset, offset + bytes) into `data`. Returns the bytes read: fewer at the end of the file, -1 on failure (errno).
int64_t read_all(int descriptor, int64_t offset, void* data, int64_t bytes);

/// Writes `data` to [offset, offset + bytes). Returns false on failure (errno), possibly after a partial write.
bool write_all(int descriptor, int64_t offset, const void* data, int64_t bytes);
/// Writes at the descriptor's current position and advances it.
bool write_all(int descriptor, const void* data, int64_t bytes);

}  // namespace weft
