#include "weft/checkpoint/format/checksum.h"

#define XXH_INLINE_ALL  // no library to link, here or in what links weft
#include <xxhash.h>

namespace weft {

uint64_t checksum(const void* data, int64_t bytes) { return XXH3_64bits(data, static_cast<size_t>(bytes)); }

}  // namespace weft
