// LargeBlocks: memory for large tensors, in addresses of their own.
//
// In a heap that all allocations share, small ones that last come to lie between the large blocks that a step frees and takes
// again, and what is free is cut up: at its peak a training step's heap was larger by a sixteenth than what was in it. Here
// free neighbours become one, and a request takes the smallest that it fits into.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

namespace weft {

/// Blocks of whole pages. Any thread may call.
class LargeBlocks {
 public:
  /// Holds at most `most_bytes` at a time; less where the system has not so many addresses for it. Takes memory as blocks need
  /// it, and keeps it.
  explicit LargeBlocks(size_t most_bytes);
  ~LargeBlocks();
  LargeBlocks(const LargeBlocks&) = delete;
  LargeBlocks& operator=(const LargeBlocks&) = delete;

  /// Aligned to a page; null where there is no room.
  void* take(size_t bytes);
  /// Gives back what take() gave.
  void release(void* memory);
  /// Whether take() gave it.
  bool holds(const void* memory) const;
  /// What blocks have needed at most, with the gaps between them.
  size_t used_bytes() const;

 private:
  bool grow(size_t bytes);
  void add_free(size_t first, size_t bytes);
  void remove_free(std::map<size_t, size_t>::iterator place);

  char* base_ = nullptr;
  size_t room_ = 0;  // addresses
  mutable std::mutex mutex_;
  size_t end_ = 0;                                ///< of what was ever used; offsets from base_, as all below
  std::map<size_t, size_t> free_;                 ///< bytes by where they begin
  std::set<std::pair<size_t, size_t>> by_bytes_;  ///< the same as bytes and where they begin
  std::unordered_map<size_t, size_t> taken_;      ///< bytes by where they begin
};

}  // namespace weft
