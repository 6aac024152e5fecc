// Built without Apache Arrow's Parquet.
#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/data/parquet/parquet_files.h"

namespace weft {

// Same signature as with Parquet. NOLINTNEXTLINE(performance-unnecessary-value-param)
std::shared_ptr<const ParquetFiles> open_parquet(std::shared_ptr<const ShardFiles> files,
                                                 const std::vector<ParquetColumn>& /*columns*/, BadData /*bad*/) {
  throw InputError(
      fmt::format("{}: this weft is built without Parquet; build it with WEFT_BUCKETS=ON (make buckets), which brings Arrow, "
                  "or pip install 'weft[buckets]' (docs/data.md)",
                  files->count() > 0 ? files->name(0) : "parquet"));
}

}  // namespace weft
