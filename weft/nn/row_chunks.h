// Sums over rows by any number of threads: of chunks of rows, then of those, in an order that the number of rows alone decides.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weft {

/// How rows are divided: 64 to a chunk, more where there would be more than 64 chunks.
struct RowChunks {
  static constexpr int64_t kFewest = 64;  ///< rows to a chunk
  static constexpr int64_t kMost = 64;    ///< chunks

  int64_t rows_each;  ///< of all but the last
  int64_t count;      ///< 0: no rows

  /// Of that many.
  explicit RowChunks(int64_t rows)
      : rows_each(std::max(kFewest, (rows + kMost - 1) / kMost)), count((rows + rows_each - 1) / rows_each) {}
};

/// The sums of the chunks, [chunks, width], in a binary tree, in the first one's place.
inline void add_up_chunks(float* sums, int64_t chunks, int64_t width) {
  for (int64_t apart = 1; apart < chunks; apart *= 2) {
    for (int64_t chunk = 0; chunk + apart < chunks; chunk += 2 * apart) {
      float* to = sums + chunk * width;
      const float* from = to + apart * width;
      for (int64_t i = 0; i < width; ++i) to[i] += from[i];
    }
  }
}

}  // namespace weft
