#include "weft/checked_device/pinned.h"

#include <c10/core/Device.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>

#include "weft/checked_device/order.h"

namespace weft::checked_device {

namespace {

struct Block {
  size_t bytes = 0;
  Access write, read;  ///< of the device, not waited for by the host when they were made
  int protection = PROT_READ | PROT_WRITE;
  int copies = 0;  ///< whose bytes are being moved
};

struct Pinned {
  std::map<const char*, Block> blocks;
  std::set<const char*> closed;
};

Pinned& pinned() {
  static Pinned& pinned = *new Pinned;
  return pinned;
}

size_t pages(size_t bytes) { return (std::max<size_t>(bytes, 1) + 4095) & ~size_t{4095}; }

void protect(const char* begin, Block& block, int protection) {
  if (block.protection == protection) return;
  mprotect(const_cast<char*>(begin), pages(block.bytes), protection);
  block.protection = protection;
}

std::pair<const char* const, Block>* block_of(const void* address) {
  const auto* at = static_cast<const char*>(address);
  auto next = pinned().blocks.upper_bound(at);
  if (next == pinned().blocks.begin()) return nullptr;
  auto& found = *std::prev(next);
  return at < found.first + std::max<size_t>(found.second.bytes, 1) ? &found : nullptr;
}

/// Also under a copy: LibTorch's allocator gives memory to others once the copies of its tensors have ended.
void release_pinned(void* address) {
  const std::lock_guard lock(order_mutex());
  Pinned& s = pinned();
  const auto at = s.blocks.find(static_cast<const char*>(address));
  munmap(address, pages(at->second.bytes));
  s.closed.erase(at->first);
  s.blocks.erase(at);
}

class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* at = mmap(nullptr, pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK(at != MAP_FAILED, "checked device: cannot allocate ", bytes, " bytes of pinned memory");
    const std::lock_guard lock(order_mutex());
    pinned().blocks[static_cast<const char*>(at)].bytes = bytes;
    return {at, at, &release_pinned, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release_pinned; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
};

}  // namespace

c10::Allocator* pinned_allocator() {
  static PinnedAllocator& allocator = *new PinnedAllocator;
  return &allocator;
}

bool is_pinned(const void* address) {
  const std::lock_guard lock(order_mutex());
  return block_of(address) != nullptr;
}

void begin_pinned_copy(const void* address, bool writes, const Access& now) {
  auto* found = block_of(address);
  if (found == nullptr) return;
  Block& block = found->second;
  const Clock& clock = clock_of(now.actor);
  for (const Access* access : {&block.write, &block.read}) {
    if (access->happened_before(clock) || (access == &block.read && !writes)) continue;
    violate(text(now) + (writes ? " writes" : " reads") + " pinned memory that " + text(*access) +
                " uses: it does not wait for that",
            true);
  }
  protect(found->first, block, PROT_READ | PROT_WRITE);
  ++block.copies;
}

void end_pinned_copy(const void* address) {
  auto* found = block_of(address);
  if (found != nullptr) --found->second.copies;
}

void close_pinned(const void* address, bool writes, const Access& now) {
  auto* found = block_of(address);
  if (found == nullptr) return;
  (writes ? found->second.write : found->second.read) = now;
  pinned().closed.insert(found->first);
  open_pinned();
}

void open_pinned() {
  Pinned& s = pinned();
  const Clock& host = clock_of(kHost);
  for (auto at = s.closed.begin(); at != s.closed.end();) {
    Block& block = s.blocks.at(*at);
    if (block.copies > 0) {
      ++at;
      continue;
    }
    const bool written = !block.write.happened_before(host), read = !block.read.happened_before(host);
    protect(*at, block, written ? PROT_NONE : read ? PROT_READ : PROT_READ | PROT_WRITE);
    at = written || read ? std::next(at) : s.closed.erase(at);
  }
}

bool is_open(const void* address) {
  const auto* found = block_of(address);
  return found != nullptr && found->second.protection == (PROT_READ | PROT_WRITE);
}

int describe_pinned(const void* address, char* text, size_t length) {
  const auto* found = block_of(address);
  if (found == nullptr) return 0;
  const Block& block = found->second;
  const bool written = block.protection == PROT_NONE;
  return std::snprintf(
      text, length, "byte %zu of %zu bytes of pinned memory that %s (launch %lu) %s; the host has not waited for it",
      static_cast<size_t>(static_cast<const char*>(address) - found->first), block.bytes,
      written ? block.write.what : block.read.what,
      static_cast<unsigned long>(written ? block.write.launch : block.read.launch), written ? "writes" : "reads");
}

}  // namespace weft::checked_device
