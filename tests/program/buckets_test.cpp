#include "weft/program/buckets.h"

#include <gtest/gtest.h>

#include "tests/program/toy.h"

namespace weft {
namespace {

Program program_of(const std::vector<int64_t>& block_numel, int gradient_bytes = 1) {
  Program program = toy_program(toy_model(static_cast<int>(block_numel.size())), {.gradient_bytes = gradient_bytes});
  program.block_numel = block_numel;
  return program;
}

std::string text(const std::vector<Bucket>& buckets) {
  std::string result;
  for (const Bucket& x : buckets) result += fmt::format("[{},{})={} ", x.first, x.last, x.bytes);
  return result;
}

// Buckets of all blocks of the program.
std::vector<Bucket> buckets(const Program& program, int64_t bucket_bytes) {
  return gradient_buckets(program, all_blocks(program), bucket_bytes);
}
std::vector<Bucket> blocks(const Program& program) { return single_blocks(program, all_blocks(program)); }

TEST(Buckets, adjacent_blocks_in_backward_order) {
  struct Case {
    const char* what;
    std::vector<int64_t> blocks;
    int64_t limit;
    const char* expected;
  };
  const Case cases[] = {
      {"all in one", {10, 10, 10}, 100, "[0,3)=30 "},
      {"exactly full", {10, 10, 10, 10}, 20, "[2,4)=20 [0,2)=20 "},
      {"one each", {10, 10, 10}, 1, "[2,3)=10 [1,2)=10 [0,1)=10 "},
      {"a large block is alone", {10, 99, 10, 10}, 20, "[2,4)=20 [1,2)=99 [0,1)=10 "},
      {"a full bucket takes no empty block", {10, 0, 20}, 20, "[2,3)=20 [0,2)=10 "},
      {"empty blocks inside", {10, 0, 0, 10}, 20, "[0,4)=20 "},
      {"empty blocks in front make no bucket", {0, 0, 99, 10}, 20, "[3,4)=10 [0,3)=99 "},
      {"an empty head", {20, 0}, 20, "[0,2)=20 "},
      {"nothing at all", {0, 0}, 20, "[0,2)=0 "},
  };
  for (const Case& c : cases) EXPECT_EQ(text(buckets(program_of(c.blocks), c.limit)), c.expected) << c.what;
}

TEST(Buckets, the_default_size_follows_from_all_and_from_the_largest) {
  const std::pair<std::vector<int64_t>, int64_t> cases[] = {{{10, 10}, 1 << 20},
                                                            {std::vector<int64_t>(24, 1 << 20), 3 << 20},
                                                            {{1 << 20, 0, 8 << 20}, 10 << 20},
                                                            {{1 << 29, 1 << 29}, 25 << 20}};
  for (const auto& [numel, expected] : cases) {
    const Program program = program_of(numel);
    EXPECT_EQ(automatic_bucket_bytes(program, all_blocks(program)), expected);
  }
  const Program program = program_of({24 << 20, 4 << 20});
  EXPECT_EQ(automatic_bucket_bytes(program, {1}), 5 << 20) << "blocks of a stage";
}

TEST(Buckets, only_adjacent_blocks_of_a_rank_share_one) {
  struct Case {
    const char* what;
    std::vector<int64_t> blocks;
    std::vector<int> held;
    const char *buckets, *single;
  };
  const Case cases[] = {
      {"a stage", {10, 10, 10, 10}, {1, 2}, "[1,3)=20 ", "[2,3)=10 [1,2)=10 "},
      {"two stages", {10, 10, 10, 10}, {0, 1, 3}, "[3,4)=10 [0,2)=20 ", "[3,4)=10 [1,2)=10 [0,1)=10 "},
      {"an empty block in front of the second stage", {10, 10, 0, 10}, {0, 2, 3}, "[2,4)=10 [0,1)=10 ", "[3,4)=10 [0,1)=10 "},
      {"a stage without gradients", {10, 0, 10}, {1}, "[1,2)=0 ", "[1,2)=0 "},
      {"an empty block that has no neighbour", {0, 10, 10}, {0, 2}, "[2,3)=10 [0,1)=0 ", "[2,3)=10 "},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(text(gradient_buckets(program_of(c.blocks), c.held, 100)), c.buckets) << c.what;
    EXPECT_EQ(text(single_blocks(program_of(c.blocks), c.held)), c.single) << c.what;
  }
}

TEST(Buckets, bytes_are_those_that_are_reduced) {
  EXPECT_EQ(text(buckets(program_of({10, 10, 10}, 2), 40)), "[1,3)=40 [0,1)=20 ");
  EXPECT_EQ(text(buckets(program_of({10, 10, 10}, 4), 40)), "[2,3)=40 [1,2)=40 [0,1)=40 ");
}

TEST(Buckets, single_blocks) {
  struct Case {
    std::vector<int64_t> blocks;
    const char* expected;
  };
  const Case cases[] = {
      {{10, 20, 30}, "[2,3)=120 [1,2)=80 [0,1)=40 "},
      {{0, 10, 0, 30, 0}, "[3,4)=120 [1,2)=40 "},
      {{0, 0}, "[0,2)=0 "},
  };
  for (const Case& c : cases) EXPECT_EQ(text(blocks(program_of(c.blocks, 4))), c.expected);
}

TEST(Buckets, whole) {
  const Bucket all = whole({{.first = 2, .last = 5, .bytes = 30}, {.first = 0, .last = 2, .bytes = 12}});
  EXPECT_EQ(all.first, 0);
  EXPECT_EQ(all.last, 5);
  EXPECT_EQ(all.bytes, 42);
}

}  // namespace
}  // namespace weft
