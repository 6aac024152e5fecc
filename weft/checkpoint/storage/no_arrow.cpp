// Built without Apache Arrow's file systems.
#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/checkpoint/storage/bucket.h"

namespace weft {

std::unique_ptr<Storage> open_bucket(const std::string& url) {
  throw InputError(
      fmt::format("{}: this weft is built without object stores; name a folder, or build with WEFT_BUCKETS=ON, or pip install "
                  "'weft[buckets]' (docs/checkpoints.md)",
                  url));
}

void close_buckets() {}

}  // namespace weft
