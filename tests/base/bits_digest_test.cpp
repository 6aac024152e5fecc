#include "weft/base/bits_digest.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace weft::bits_digest_test {
namespace {

std::vector<unsigned char> some_bytes(size_t count) {
  std::vector<unsigned char> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<unsigned char>(i * 31 + i / 7);
  return bytes;
}

TEST(BitsDigest, SeesEveryBitAndEveryLength) {
  std::set<uint64_t> seen;
  size_t made = 0;
  for (const size_t count : {0, 1, 7, 8, 63, 64, 65, 200}) {
    std::vector<unsigned char> bytes = some_bytes(count);
    seen.insert(bits_digest(bytes.data(), count));
    ++made;
    for (size_t bit = 0; bit < 8 * count; ++bit, ++made) {
      bytes[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
      seen.insert(bits_digest(bytes.data(), count));
      bytes[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
    }
  }
  EXPECT_EQ(seen.size(), made);
}

/// Sign bits of two elements, which no product carries into other bits; and equal changes a lane apart.
TEST(BitsDigest, PairsOfFlipsDoNotCancel) {
  std::vector<unsigned char> bytes = some_bytes(1024);
  std::set<uint64_t> seen = {bits_digest(bytes.data(), bytes.size())};
  size_t made = 1;
  for (size_t a = 3; a < bytes.size(); a += 4) {
    for (size_t b = a + 4; b < bytes.size(); b += 4, ++made) {
      bytes[a] ^= 0x80;
      bytes[b] ^= 0x80;
      seen.insert(bits_digest(bytes.data(), bytes.size()));
      bytes[a] ^= 0x80;
      bytes[b] ^= 0x80;
    }
  }
  EXPECT_EQ(seen.size(), made);
}

TEST(BitsDigest, DependsOnPlacesAndTheSeed) {
  std::vector<uint64_t> words = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  const auto digest = [&](uint64_t seed = 0) { return bits_digest(words.data(), words.size() * 8, seed); };
  const uint64_t first = digest();
  EXPECT_NE(digest(1), first);
  std::swap(words[0], words[8]);  // in one lane
  EXPECT_NE(digest(), first);
  std::swap(words[0], words[8]);
  std::swap(words[0], words[1]);
  EXPECT_NE(digest(), first);
  EXPECT_NE(bits_digest(words.data(), 16), bits_digest(words.data(), 24));
}

}  // namespace
}  // namespace weft::bits_digest_test
