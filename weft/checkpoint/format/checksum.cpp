#include "weft/checkpoint/format/checksum.h"

#define XXH_INLINE_ALL  // no library to link, neither for weft nor for its users
#include <xxhash.h>

namespace weft {

uint64_t xxh3_checksum(const void* data, int64_t bytes) { return XXH3_64bits(data, static_cast<size_t>(bytes)); }

}  // namespace weft
