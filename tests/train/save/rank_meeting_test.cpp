// What ranks of a save read when one of them fails.
#include "weft/train/save/rank_meeting.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/refusal.h"
#include "tests/support/run_ranks.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

/// A rank that has what all agreed on fails later than one that has not: each would leave another state behind.
TEST(RankMeeting, AValueSentBeforeAFailureIsReadByAll) {
  test::run_ranks(4, [](World world) {
    for (int round = 0; round < 300; ++round) {
      RankMeeting meeting(world, "saving", 10s);
      if (world.rank() == 0) {
        meeting.send("verdict", "");
        meeting.fail("the disk is full");
      } else {
        EXPECT_EQ(test::failure([&] { meeting.wait_for("verdict", 0); }), "");
        EXPECT_EQ(test::failure([&] { meeting.wait_for("done", 0); }), "the disk is full");
      }
    }
  });
}

}  // namespace
}  // namespace weft
