// Which newcomer is evicted, and when each expires.
#include "weft/base/newcomers.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace weft::newcomers_test {
namespace {

using std::chrono::milliseconds;
using Numbers = std::vector<uint64_t>;

constexpr NewcomerLimits kLimits{.most = 4, .max_per_address = 3, .young = milliseconds(100), .to_prove = milliseconds(300)};

Newcomers::Time at(int ms) { return Newcomers::Time{} + std::chrono::hours(1) + milliseconds(ms); }

struct Arrival {
  int ms;
  std::string address;
};

/// Arrivals are numbered from 10.
struct Case {
  const char* what;
  std::vector<Arrival> arrivals;
  Numbers gone;
  int now_ms;
  std::string address;  ///< address of the new arrival
  bool has_room;
  std::optional<uint64_t> to_evict;
  Numbers expired;
  std::optional<int> next_due_ms;  ///< before expired ones are removed
};

const std::vector<Case> kCases = {
    {"the first", {}, {}, 0, "a", true, {}, {}, {}},
    {"fewer than the most", {{0, "a"}, {1, "b"}, {2, "c"}}, {}, 3, "d", true, {}, {}, 300},
    {"the oldest of all is young", {{0, "a"}, {1, "b"}, {2, "c"}, {3, "d"}}, {}, 99, "e", false, 10, {}, 300},
    {"and no longer young", {{0, "a"}, {1, "b"}, {2, "c"}, {3, "d"}}, {}, 100, "e", true, 10, {}, 300},
    {"others' age does not matter", {{0, "a"}, {99, "b"}, {99, "c"}, {99, "d"}}, {}, 100, "e", true, 10, {}, 300},
    {"the oldest of the rest", {{0, "a"}, {1, "b"}, {2, "c"}, {3, "d"}, {4, "e"}}, {10}, 101, "f", true, 11, {}, 301},
    {"and is young", {{0, "a"}, {1, "b"}, {2, "c"}, {3, "d"}, {4, "e"}}, {10}, 100, "f", false, 11, {}, 301},
    {"a closed one frees its place", {{0, "a"}, {1, "b"}, {2, "c"}, {3, "d"}}, {12}, 4, "e", true, {}, {}, 300},
    {"too many from an address, young", {{0, "b"}, {1, "a"}, {2, "a"}, {3, "a"}}, {10}, 4, "a", true, 11, {}, 301},
    {"one of them has gone", {{0, "a"}, {1, "a"}, {2, "a"}}, {11}, 4, "a", true, {}, {}, 300},
    {"as many, from another address", {{0, "a"}, {1, "a"}, {2, "a"}}, {}, 4, "b", true, {}, {}, 300},
    {"too many in all and from an address", {{0, "b"}, {1, "a"}, {2, "a"}, {3, "a"}}, {}, 200, "a", true, 11, {}, 300},
    {"before the time is over", {{0, "a"}, {50, "b"}}, {}, 299, "c", true, {}, {}, 300},
    {"as it is over", {{0, "a"}, {50, "b"}}, {}, 300, "c", true, {}, {10}, 300},
    {"several, the oldest first", {{0, "a"}, {50, "b"}, {51, "a"}}, {}, 350, "c", true, {}, {10, 11}, 300},
    {"one that has proven itself stays", {{0, "a"}, {50, "b"}}, {10}, 400, "c", true, {}, {11}, 350},
};

TEST(Newcomers, RoomAndTimes) {
  for (const Case& row : kCases) {
    SCOPED_TRACE(row.what);
    Newcomers newcomers(kLimits);
    uint64_t number = 10;
    for (const Arrival& arrival : row.arrivals) newcomers.add(number++, at(arrival.ms), arrival.address);
    for (const uint64_t gone : row.gone) {
      EXPECT_TRUE(newcomers.remove(gone));
      EXPECT_FALSE(newcomers.remove(gone)) << "it is already removed";
    }
    EXPECT_EQ(newcomers.has_room(at(row.now_ms)), row.has_room);
    EXPECT_EQ(newcomers.to_evict(row.address), row.to_evict);
    EXPECT_EQ(newcomers.next_due(), row.next_due_ms ? std::optional(at(*row.next_due_ms)) : std::nullopt);
    Numbers expired;
    while (const auto late = newcomers.expired(at(row.now_ms))) {
      expired.push_back(*late);
      ASSERT_TRUE(newcomers.remove(*late));
    }
    EXPECT_EQ(expired, row.expired);
  }
}

TEST(Newcomers, WithoutAnAddressLimitOneMayTakeAllPlaces) {
  Newcomers newcomers({.most = 1000, .young = milliseconds(100), .to_prove = milliseconds(300)});
  for (uint64_t number = 0; number < 999; ++number) newcomers.add(number, at(0), "a");
  EXPECT_EQ(newcomers.to_evict("a"), std::nullopt);
  newcomers.add(999, at(0), "a");
  EXPECT_EQ(newcomers.to_evict("a"), 0U);
}

}  // namespace
}  // namespace weft::newcomers_test
