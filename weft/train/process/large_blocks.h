// LargeBlocks: memory for large tensors, in a separate address range.
//
// In a shared heap, small long-lived allocations end up between the large blocks that each step frees and allocates again, and
// fragment the free space: the heap at the peak of a training step was a sixteenth larger than its contents. Here free
// neighbours merge, and a request takes the smallest block that fits.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

namespace weft {

/// Blocks of whole pages. Thread-safe.
class LargeBlocks {
 public:
  /// Holds at most `most_bytes` at once; less if the system lacks addresses for it. Takes memory as blocks need it, and keeps
  /// it.
  explicit LargeBlocks(size_t most_bytes);
  ~LargeBlocks();
  LargeBlocks(const LargeBlocks&) = delete;
  LargeBlocks& operator=(const LargeBlocks&) = delete;

  /// Returns a page-aligned block; null if there is no room.
  void* take(size_t bytes);
  /// Releases a block from take().
  void release(void* memory);
  /// Returns true for a block from take().
  bool holds(const void* memory) const;
  /// High-water mark of the blocks, gaps included.
  size_t used_bytes() const;

 private:
  bool grow(size_t bytes);
  void add_free(size_t first, size_t bytes);
  void remove_free(std::map<size_t, size_t>::iterator place);

  char* base_ = nullptr;
  size_t room_ = 0;  // size of the address range
  mutable std::mutex mutex_;
  size_t end_ = 0;                                ///< end of the range ever used; an offset from base_, like all below
  std::map<size_t, size_t> free_;                 ///< bytes by offset
  std::set<std::pair<size_t, size_t>> by_bytes_;  ///< the same as (bytes, offset)
  std::unordered_map<size_t, size_t> taken_;      ///< bytes by offset
};

}  // namespace weft
