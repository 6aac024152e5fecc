// Reading and writing all bytes of a range of a file: a call of the system's may stop earlier, and takes 2 GiB at most.
#pragma once

#include <cstdint>

namespace weft {

/// Reads [offset, offset + bytes) into `data`. Returns the bytes read: fewer where the file ends, -1 where it failed (errno).
int64_t read_all(int descriptor, int64_t offset, void* data, int64_t bytes);

/// Writes `data` to [offset, offset + bytes). False, and errno says why, where it failed: a part may be written then.
bool write_all(int descriptor, int64_t offset, const void* data, int64_t bytes);
/// The same from where the descriptor stands, which moves.
bool write_all(int descriptor, const void* data, int64_t bytes);

}  // namespace weft
