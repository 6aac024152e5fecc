// buffer_sizes: how large buffers are that several blocks use in turn.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

/// The size of each buffer, by its number: that of its largest block. `buffer_of_block` is -1 for a block that needs none;
/// `size_of(block)` is called for the others.
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
