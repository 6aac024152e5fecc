// Documents in windows: every token is predicted once, no window is overfull, and few windows are used.
#include "weft/data/tokens/pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "tests/support/seeds.h"

namespace weft::pack_test {
namespace {

using Lengths = std::vector<int64_t>;

Lengths starts_of(const Lengths& lengths) {
  Lengths starts(lengths.size());
  std::exclusive_scan(lengths.begin(), lengths.end(), starts.begin(), int64_t{0});
  return starts;
}

int64_t sum(const Lengths& lengths) { return std::accumulate(lengths.begin(), lengths.end(), int64_t{0}); }

/// Mostly short, some empty or of one token, a few longer than any window.
Lengths random_lengths(test::Random& random) {
  Lengths lengths(static_cast<size_t>(1 + random.below(60)));
  for (int64_t& length : lengths) length = random.one_in(8) ? random.below(200) : random.below(30);
  return lengths;
}

/// Lengths of the pieces of each window.
std::vector<Lengths> windows_of(const Packing& packing) {
  std::vector<Lengths> windows(static_cast<size_t>(packing.num_windows()));
  for (size_t w = 0; w < windows.size(); ++w) {
    for (int64_t i = packing.first[w]; i < packing.first[w + 1]; ++i) windows[w].push_back(packing.pieces[i].tokens);
  }
  return windows;
}

TEST(Pack, EveryTokenExceptADocumentsFirstIsPredictedOnce) {
  for (const unsigned seed : test::seeds(test::cases(200))) {
    SCOPED_TRACE(test::replay(seed));
    test::Random random(seed);
    const Lengths lengths = random_lengths(random), starts = starts_of(lengths);
    const int64_t size = sum(lengths), window = 1 + random.below(40);
    const int64_t begin = random.one_in(2) ? 0 : random.below(static_cast<int>(size) + 1);
    const int64_t end = begin + random.below(static_cast<int>(size - begin) + 1);
    std::set<int64_t> expected;
    for (size_t d = 0; d < starts.size(); ++d) {
      const int64_t from = std::max(starts[d], begin), to = std::min(starts[d] + lengths[d], end);
      for (int64_t t = from + 1; t < to; ++t) expected.insert(t);
    }
    const Packing packing = pack_documents(starts, begin, end, window, seed);
    std::set<int64_t> predicted;
    for (const PackedPiece& piece : packing.pieces) {
      ASSERT_GE(piece.tokens, 1);
      for (int64_t t = 1; t <= piece.tokens; ++t) EXPECT_TRUE(predicted.insert(piece.begin + t).second) << piece.begin + t;
      // A piece lies in one document: its inputs and its targets.
      const auto next = std::upper_bound(starts.begin(), starts.end(), piece.begin);
      EXPECT_TRUE(next == starts.end() || piece.begin + piece.tokens < *next) << piece.begin;
    }
    EXPECT_EQ(predicted, expected);
    EXPECT_EQ(packing.tokens, static_cast<int64_t>(expected.size()));
    for (const Lengths& pieces : windows_of(packing)) {
      EXPECT_LE(sum(pieces), window);
      EXPECT_FALSE(pieces.empty());
      EXPECT_TRUE(std::is_sorted(pieces.rbegin(), pieces.rend()));
    }
    const int64_t least = (packing.tokens + window - 1) / window;
    EXPECT_LE(9 * packing.num_windows(), 11 * least + 9 * 4) << "vs the fewest that the number of places allows";
  }
}

/// Best fit piece by piece, looking at all windows: the slow reference.
std::map<int64_t, int64_t> rooms_by_looking(Lengths pieces, int64_t window) {
  std::sort(pieces.rbegin(), pieces.rend());
  Lengths rooms;
  for (const int64_t piece : pieces) {
    auto best = rooms.end();
    for (auto it = rooms.begin(); it != rooms.end(); ++it) {
      if (*it >= piece && (best == rooms.end() || *it < *best)) best = it;
    }
    if (best == rooms.end()) best = rooms.insert(rooms.end(), window);
    *best -= piece;
  }
  std::map<int64_t, int64_t> counts;
  for (const int64_t room : rooms) ++counts[room];
  return counts;
}

TEST(Pack, IsBestFitDecreasing) {
  for (const unsigned seed : test::seeds(test::cases(100))) {
    SCOPED_TRACE(test::replay(seed));
    test::Random random(seed);
    const Lengths lengths = random_lengths(random);
    const Packing packing = pack_documents(starts_of(lengths), 0, sum(lengths), 25, seed);
    Lengths pieces;
    std::map<int64_t, int64_t> rooms;
    for (const PackedPiece& piece : packing.pieces) pieces.push_back(piece.tokens);
    for (const Lengths& window : windows_of(packing)) ++rooms[25 - sum(window)];
    EXPECT_EQ(rooms, rooms_by_looking(pieces, 25));
  }
}

/// Half are halves of a window, half are thirds and sixths: a perfect packing exists and is found.
TEST(Pack, FillsWindowsWhereLengthsFit) {
  Lengths lengths;
  for (int i = 0; i < 300; ++i) lengths.insert(lengths.end(), {31, 21, 11});  // 30 + 20 + 10 places
  const Packing packing = pack_documents(starts_of(lengths), 0, sum(lengths), 60, 1);
  EXPECT_EQ(packing.num_windows(), 300);
  EXPECT_EQ(packing.tokens, 300 * 60);
}

std::vector<std::pair<int64_t, int64_t>> text_of(const Packing& packing) {
  std::vector<std::pair<int64_t, int64_t>> all;
  for (const PackedPiece& piece : packing.pieces) all.emplace_back(piece.begin, piece.tokens);
  for (const int64_t first : packing.first) all.emplace_back(first, -1);
  return all;
}

TEST(Pack, IsAFunctionOfLengthsAndSeed) {
  const Lengths lengths(50, 8);
  const auto packed = [&](uint64_t seed) { return text_of(pack_documents(starts_of(lengths), 0, sum(lengths), 20, seed)); };
  EXPECT_EQ(packed(3), packed(3));
  EXPECT_NE(packed(3), packed(4)) << "which documents of equal length share a window";
  Lengths counts;
  for (const uint64_t seed : {1, 2, 3})
    counts.push_back(pack_documents(starts_of(lengths), 0, sum(lengths), 20, seed).num_windows());
  EXPECT_EQ(counts, (Lengths{25, 25, 25}));
}

TEST(Pack, LongDocumentsAreCutWithoutLoss) {
  const Packing packing = pack_documents({0, 11}, 0, 14, 4, 0);  // documents of 11 and 3 tokens
  std::set<std::pair<int64_t, int64_t>> pieces;
  for (const PackedPiece& piece : packing.pieces) pieces.emplace(piece.begin, piece.tokens);
  EXPECT_EQ(pieces, (std::set<std::pair<int64_t, int64_t>>{{0, 4}, {4, 4}, {8, 2}, {11, 2}}));
  EXPECT_EQ(packing.num_windows(), 3);
  EXPECT_EQ(pack_documents({0, 1, 2}, 0, 3, 4, 0).num_windows(), 0) << "documents of one token predict nothing";
  EXPECT_EQ(pack_documents({}, 0, 5, 4, 0).num_windows(), 1);
}

}  // namespace
}  // namespace weft::pack_test
