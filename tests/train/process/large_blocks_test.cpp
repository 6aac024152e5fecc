// Blocks of a region: never overlapping, all free again after the last release, and null when there is no room.
#include "weft/train/process/large_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/seeds.h"

namespace weft::large_blocks_test {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

struct Block {
  unsigned char* memory;
  size_t bytes;
  unsigned char mark;
};

void fill(const Block& block) { std::memset(block.memory, block.mark, block.bytes); }

bool is_whole(const Block& block) {
  return std::all_of(block.memory, block.memory + block.bytes, [&](unsigned char byte) { return byte == block.mark; });
}

void take_and_release(LargeBlocks& blocks, unsigned seed, int times) {
  test::Random random(seed);
  std::vector<Block> taken;
  const auto release = [&](size_t place) {
    ASSERT_TRUE(is_whole(taken[place])) << "another block wrote into it";
    blocks.release(taken[place].memory);
    taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(place));
  };
  for (int i = 0; i < times; ++i) {
    if (!taken.empty() && (taken.size() > 20 || random.one_in(2))) {
      release(static_cast<size_t>(random.below(static_cast<int>(taken.size()))));
      continue;
    }
    const auto bytes = static_cast<size_t>(1 + random.below(200000));
    auto* memory = static_cast<unsigned char*>(blocks.take(bytes));
    ASSERT_NE(memory, nullptr);
    ASSERT_TRUE(blocks.holds(memory) && blocks.holds(memory + bytes - 1));
    ASSERT_EQ(reinterpret_cast<uintptr_t>(memory) % 4096, 0U);
    taken.push_back({memory, bytes, static_cast<unsigned char>(i)});
    fill(taken.back());
  }
  while (!taken.empty()) release(taken.size() - 1);
}

TEST(LargeBlocks, AreTheirOwnersAlone) {
  for (const unsigned seed : test::seeds(4)) {
    SCOPED_TRACE(test::replay(seed));
    LargeBlocks blocks(64 * kMiB);
    take_and_release(blocks, seed, 2000);
    const size_t used = blocks.used_bytes();
    EXPECT_LT(used, 6 * kMiB) << "of at most 21 blocks of 0.2 MB";
    void* all = blocks.take(used);  // neighbours that are free are one block
    EXPECT_NE(all, nullptr);
    EXPECT_EQ(blocks.used_bytes(), used);
    blocks.release(all);
  }
}

TEST(LargeBlocks, OfThreadsDoNotMeet) {
  LargeBlocks blocks(64 * kMiB);
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 3; ++seed) threads.emplace_back([&blocks, seed] { take_and_release(blocks, seed, 500); });
  for (std::thread& thread : threads) thread.join();
}

TEST(LargeBlocks, TakeTheSmallestThatFits) {
  LargeBlocks blocks(64 * kMiB);
  void* large = blocks.take(4 * kMiB);
  void* between = blocks.take(kMiB);
  void* small = blocks.take(2 * kMiB);
  void* last = blocks.take(kMiB);
  blocks.release(large);
  blocks.release(small);
  EXPECT_EQ(blocks.take(2 * kMiB), small);
  EXPECT_EQ(blocks.take(3 * kMiB), large);
  EXPECT_EQ(blocks.take(kMiB), static_cast<char*>(large) + 3 * kMiB);
  EXPECT_EQ(blocks.used_bytes(), 8 * kMiB);
  blocks.release(last);
  EXPECT_EQ(blocks.take(5 * kMiB), last) << "what is free at the end is not made use of";
  EXPECT_EQ(blocks.used_bytes(), 12 * kMiB);
  blocks.release(between);
}

TEST(LargeBlocks, AreRefusedWhereThereIsNoRoom) {
  LargeBlocks blocks(8 * kMiB);
  EXPECT_EQ(blocks.take(9 * kMiB), nullptr);
  EXPECT_EQ(blocks.take(SIZE_MAX), nullptr);
  void* most = blocks.take(6 * kMiB);
  ASSERT_NE(most, nullptr);
  EXPECT_EQ(blocks.take(3 * kMiB), nullptr);
  void* rest = blocks.take(2 * kMiB);
  EXPECT_NE(rest, nullptr);
  int elsewhere = 0;
  EXPECT_FALSE(blocks.holds(&elsewhere));
}

}  // namespace
}  // namespace weft::large_blocks_test
