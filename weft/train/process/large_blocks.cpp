#include "weft/train/process/large_blocks.h"

#include <sys/mman.h>

#include <iterator>

#include "weft/base/math.h"

namespace weft {

namespace {

constexpr size_t kPage = 4096, kLeastRoom = size_t{1} << 30;

}  // namespace

LargeBlocks::LargeBlocks(size_t most_bytes) {
  for (size_t room = round_up(most_bytes, kPage); room >= kLeastRoom || room == round_up(most_bytes, kPage); room /= 2) {
    void* memory = ::mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) continue;
    base_ = static_cast<char*>(memory);
    room_ = room;
    return;
  }
}

LargeBlocks::~LargeBlocks() {
  if (base_) ::munmap(base_, room_);
}

bool LargeBlocks::holds(const void* memory) const {
  const auto* place = static_cast<const char*>(memory);
  return base_ && place >= base_ && place < base_ + room_;
}

size_t LargeBlocks::used_bytes() const {
  const std::scoped_lock lock(mutex_);
  return end_;
}

void LargeBlocks::add_free(size_t first, size_t bytes) {
  free_.emplace(first, bytes);
  by_bytes_.emplace(bytes, first);
}

void LargeBlocks::remove_free(std::map<size_t, size_t>::iterator place) {
  by_bytes_.erase({place->second, place->first});
  free_.erase(place);
}

/// Extends the end to a free block of that size, including the free block already there.
bool LargeBlocks::grow(size_t bytes) {
  size_t first = end_;
  const auto last = free_.empty() ? free_.end() : std::prev(free_.end());
  const bool ends_free = last != free_.end() && last->first + last->second == end_;
  if (ends_free) first = last->first;
  if (bytes > room_ - first) return false;
  if (::mprotect(base_ + end_, first + bytes - end_, PROT_READ | PROT_WRITE) != 0) return false;
  if (ends_free) remove_free(last);
  end_ = first + bytes;
  add_free(first, bytes);
  return true;
}

void* LargeBlocks::take(size_t bytes) {
  if (bytes > room_) return nullptr;
  const size_t needed = round_up(bytes, kPage);
  const std::scoped_lock lock(mutex_);
  auto fitting = by_bytes_.lower_bound({needed, 0});
  if (fitting == by_bytes_.end()) {
    if (!grow(needed)) return nullptr;
    fitting = by_bytes_.lower_bound({needed, 0});
  }
  const auto [found, first] = *fitting;
  remove_free(free_.find(first));
  if (found > needed) add_free(first + needed, found - needed);
  taken_.emplace(first, needed);
  return base_ + first;
}

void LargeBlocks::release(void* memory) {
  const std::scoped_lock lock(mutex_);
  const auto taken = taken_.find(static_cast<size_t>(static_cast<char*>(memory) - base_));
  size_t first = taken->first, bytes = taken->second;
  taken_.erase(taken);
  const auto next = free_.upper_bound(first);
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == first) {
      first = before->first;
      bytes += before->second;
      remove_free(before);
    }
  }
  if (next != free_.end() && first + bytes == next->first) {
    bytes += next->second;
    remove_free(next);
  }
  add_free(first, bytes);
}

}  // namespace weft
