#include "weft/base/hash.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

// Published values of FNV-1a 64 and of the first splitmix64 outputs.
static_assert(fnv1a("") == 0xcbf29ce484222325ULL);
static_assert(fnv1a("a") == 0xaf63dc4c8601ec8cULL);
static_assert(fnv1a("foobar") == 0x85944171f73967e8ULL);
static_assert(splitmix64(0) == 0xe220a8397b1dcdafULL);
static_assert(splitmix64(0x9e3779b97f4a7c15ULL) == 0x6e789e6aa1b965f4ULL);

TEST(Hash, continues_from_an_earlier_result) { EXPECT_EQ(fnv1a("bar", fnv1a("foo")), fnv1a("foobar")); }

TEST(Hash, bytes_above_127_count_as_unsigned) { EXPECT_EQ(fnv1a("\xff"), 0xaf64724c8602eb6eULL); }

}  // namespace
}  // namespace weft
