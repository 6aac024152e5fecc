// The zig-zag cut: every token once, equal causal work for all ranks, and refusal of lengths that cannot be cut.
#include "weft/nn/sequence/zigzag.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <utility>

#include "tests/support/refusal.h"

namespace weft::zigzag_test {
namespace {

using Ranges = std::vector<std::pair<int64_t, int64_t>>;

Ranges pairs_of(const std::vector<ShardRange>& ranges) {
  Ranges pairs;
  for (const ShardRange& range : ranges) pairs.emplace_back(range.begin, range.end);
  return pairs;
}

TEST(SequenceShards, ARankHasAChunkAndItsMirror) {
  const struct {
    int64_t tokens;
    int ranks, rank;
    Ranges expected;
  } cases[] = {{7, 1, 0, {{0, 7}}},           {8, 2, 0, {{0, 2}, {6, 8}}},    {8, 2, 1, {{2, 4}, {4, 6}}},
               {12, 3, 1, {{2, 4}, {8, 10}}}, {16, 4, 0, {{0, 2}, {14, 16}}}, {16, 4, 3, {{6, 8}, {8, 10}}}};
  for (const auto& c : cases) EXPECT_EQ(pairs_of(zigzag(c.tokens, c.ranks, c.rank)), c.expected) << c.ranks << ' ' << c.rank;
}

TEST(SequenceShards, EveryTokenOnceAndTheSameCausalWorkForAll) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    const int64_t tokens = 6 * ranks;
    std::vector<int> seen(tokens);
    for (int rank = 0; rank < ranks; ++rank) {
      const at::Tensor positions = shard_positions(zigzag(tokens, ranks, rank), at::kCPU);
      for (int64_t i = 0; i < positions.numel(); ++i) ++seen[positions[i].item<int64_t>()];
      const int64_t keys_seen = positions.add(1).sum().item<int64_t>();
      EXPECT_EQ(keys_seen * ranks, tokens * (tokens + 1) / 2) << rank << " of " << ranks;
    }
    EXPECT_EQ(seen, std::vector<int>(tokens, 1)) << ranks;
  }
}

TEST(SequenceShards, TakesTheTokensAtThePositions) {
  const at::Tensor x = at::arange(2 * 8 * 3).view({2, 8, 3});
  const std::vector<ShardRange> ranges = zigzag(8, 2, 0);
  EXPECT_TRUE(at::equal(take_shards(x, 1, ranges), x.index_select(1, shard_positions(ranges, at::kCPU))));
  const at::Tensor whole = take_shards(x, 1, zigzag(8, 1, 0));
  EXPECT_EQ(whole.data_ptr(), x.data_ptr());
  EXPECT_EQ(whole.sizes(), x.sizes());
}

TEST(SequenceShards, RefusesWhatCannotBeCut) {
  const struct {
    int64_t tokens;
    int ranks, rank;
    const char* text;
  } cases[] = {
      {10, 2, 0, "a sequence of 10 tokens cannot be cut into 4 equal chunks for 2 ranks; take 8 or 12"},
      {3, 2, 0, "a sequence of 3 tokens cannot be cut into 4 equal chunks for 2 ranks; take 4"},
      {0, 1, 0, "a sequence of 0 tokens cannot be cut into 1 equal chunks for 1 ranks; take 1"},
      {8, 2, 2, "there is no rank 2 of 2"},
      {8, 0, 0, "there is no rank 0 of 0"},
  };
  for (const auto& c : cases) {
    const std::string text = test::refusal([&] { zigzag(c.tokens, c.ranks, c.rank); });
    EXPECT_NE(text.find(c.text), std::string::npos) << text;
  }
  EXPECT_NE(test::refusal([] { take_shards(at::arange(3), 0, {}); }), "");
}

}  // namespace
}  // namespace weft::zigzag_test
