// The launcher's report of ranks that waited for ranks of a lost host.
#include "weft/comm/reported_waits.h"

#include <gtest/gtest.h>

namespace weft::reported_waits_test {
namespace {

RankRow waiting(const std::string& doing, std::vector<int> awaits) {
  RankRow row;
  row.state = RankState::waiting;
  row.doing = doing;
  row.awaits = std::move(awaits);
  return row;
}

TEST(ReportedWaits, NameTheOperationAndTheRanks) {
  const RankRow sum = waiting("all_reduce \"a\"", {1, 2, 3});
  RankRow ended = sum;
  ended.state = RankState::ended;
  struct Case {
    std::vector<RankRow> rows;
    std::vector<int> lost;
    const char* says;
  };
  const Case cases[] = {
      {{sum, sum, {}, {}}, {2, 3}, "ranks 0, 1 waited in all_reduce \"a\" for ranks 2, 3"},
      {{sum, {}, {}, {}}, {3}, "rank 0 waited in all_reduce \"a\" for rank 3"},
      {{waiting("receive", {3}), sum, {}, {}},
       {3},
       "rank 0 waited in receive for rank 3, rank 1 waited in all_reduce \"a\" for rank 3"},
      {{sum, {}, {}, {}}, {4}, ""},
      {{ended, {}, {}, {}}, {3}, ""},
      {{}, {3}, ""},
      {{sum, sum, sum, sum, sum, sum}, {3}, "ranks 0, 1, 2, 3 and 2 others waited in all_reduce \"a\" for rank 3"},
  };
  for (const Case& c : cases) EXPECT_EQ(describe_waits_for(c.rows, c.lost), c.says);
}

}  // namespace
}  // namespace weft::reported_waits_test
