#include "weft/train/process/process_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <malloc.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "weft/base/math.h"
#include "weft/train/process/large_blocks.h"

namespace weft {

namespace {

constexpr size_t kAlign = c10::gAlignment;
constexpr size_t kRoom = kAlign + sizeof(void*);
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kLarge = SIZE_MAX;  // only malloc's memory is watched
#else
constexpr size_t kLarge = size_t{1} << 16;
#endif

/// Lives as long as the process, because its tensors may.
LargeBlocks& large_blocks() {
  static auto* blocks =
      new LargeBlocks(static_cast<size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(::sysconf(_SC_PAGESIZE)));
  return *blocks;
}

/// The address of malloc's block, stored right before the tensor's memory.
void*& block_of(void* memory) { return static_cast<void**>(memory)[-1]; }

void release(void* memory) {
  if (!memory) return;
  large_blocks().holds(memory) ? large_blocks().release(memory) : std::free(block_of(memory));
}

void* take_small(size_t bytes) {
  void* block = bytes > SIZE_MAX - kRoom ? nullptr : std::malloc(bytes + kRoom);
  if (!block) return nullptr;
  const auto first = reinterpret_cast<uintptr_t>(block) + sizeof(void*);
  void* memory = reinterpret_cast<void*>(round_up(first, kAlign));  // NOLINT: an aligned address in the block
  block_of(memory) = block;
  return memory;
}

class ReusedBlocks : public at::Allocator {
 public:
  at::DataPtr allocate(size_t bytes) override {
    void* memory = bytes == 0 ? nullptr : take(bytes);
    return {memory, memory, &release, at::Device(at::kCPU)};
  }
  at::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t count) const override { default_copy_data(to, from, count); }

 private:
  static void* take(size_t bytes) {
    void* memory = bytes < kLarge ? nullptr : large_blocks().take(bytes);
    if (!memory) memory = take_small(bytes);
    TORCH_CHECK_WITH(OutOfMemoryError, memory, "can't allocate memory: a tensor needs ", bytes, " bytes");
    return memory;
  }
};

}  // namespace

void keep_and_reuse_memory() {
  constexpr int kAlways = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kAlways);
  mallopt(M_TRIM_THRESHOLD, kAlways);
  static ReusedBlocks blocks;  // lives as long as the process, because its tensors may
  constexpr uint8_t kPriority = 50;
  c10::SetCPUAllocator(&blocks, kPriority);
}

}  // namespace weft
