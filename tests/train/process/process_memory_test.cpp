#include "weft/train/process/process_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <string>
#include <vector>

namespace weft::process_memory_test {
namespace {

at::Tensor bytes(int64_t count) { return at::empty({count}, at::kByte); }

class ProcessMemory : public testing::Test {
 protected:
  static void SetUpTestSuite() { keep_and_reuse_memory(); }
};

TEST_F(ProcessMemory, TensorsAreAligned) {
  for (const int64_t size : {1, 7, 63, 64, 65, 4096, 65535, 65536, 1 << 20}) {
    const at::Tensor tensor = bytes(size).fill_(1);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data_ptr()) % 64, 0u) << size;
    EXPECT_EQ(tensor.sum().item<int64_t>(), size);
  }
  EXPECT_EQ(bytes(0).numel(), 0);
}

TEST_F(ProcessMemory, TensorsGrowAndShrink) {
  at::Tensor tensor = at::ones({10});
  tensor.resize_({1000});
  EXPECT_EQ(tensor.narrow(0, 0, 10).sum().item<float>(), 10.0f);
  void* bare = c10::GetCPUAllocator()->raw_allocate(100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bare) % 64, 0u);
  c10::GetCPUAllocator()->raw_deallocate(bare);
}

// Blocks only, because the small objects of a tensor may take a piece of a hole. Sanitizers have their own malloc, whose heap
// is not counted. For large blocks see large_blocks_test.cpp.
TEST_F(ProcessMemory, WhatWasFreedIsTakenAgain) {
  constexpr int kBlocks = 512;
  constexpr int64_t kSize = 50000;
  std::vector<at::DataPtr> blocks(kBlocks);
  for (at::DataPtr& block : blocks) block = c10::GetCPUAllocator()->allocate(kSize);
  for (int i = 0; i < kBlocks; i += 2) blocks[i].clear();  // holes between blocks that stay
  const size_t heap = mallinfo2().arena;
  for (int i = 0; i < kBlocks; i += 2) blocks[i] = c10::GetCPUAllocator()->allocate(kSize);
  EXPECT_LT(mallinfo2().arena, heap + kSize) << "the holes took none of them";
}

TEST_F(ProcessMemory, TooMuchIsAnErrorThatSaysHowMuch) {
  for (const int64_t size : {int64_t{1} << 60, INT64_MAX}) {
    try {
      bytes(size);
      FAIL() << size;
    } catch (const c10::OutOfMemoryError& error) {
      EXPECT_NE(std::string(error.what()).find("can't allocate memory: a tensor needs " + std::to_string(size)),
                std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace weft::process_memory_test
