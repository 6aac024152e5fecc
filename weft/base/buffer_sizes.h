// buffer_sizes: sizes of buffers that several blocks share in turn.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

/// Returns the size of each buffer: that of its largest block. `buffer_of_block` is -1 for a block without a buffer;
/// `size_of(block)` is called for every other block.
template <class SizeOf>
std::vector<int64_t> buffer_sizes(const std::vector<int>& buffer_of_block, const SizeOf& size_of) {
  std::vector<int64_t> sizes;
  for (size_t block = 0; block < buffer_of_block.size(); ++block) {
    if (buffer_of_block[block] < 0) continue;
    const auto buffer = static_cast<size_t>(buffer_of_block[block]);
    if (sizes.size() <= buffer) sizes.resize(buffer + 1, 0);
    sizes[buffer] = std::max<int64_t>(sizes[buffer], size_of(block));
  }
  return sizes;
}

}  // namespace weft
