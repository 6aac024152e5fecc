// The rank at the end of all waits, for every possible shape of a chain.
#include "weft/comm/wait/waits.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/seeds.h"
#include "weft/base/hash.h"
#include "weft/comm/call/call_record.h"

namespace weft {
namespace {

using Rows = std::vector<RankRow>;

RankRow running() { return {}; }

RankRow waiting(std::vector<int> awaits, const std::string& doing = "barrier \"b\"") {
  RankRow row;
  row.state = RankState::waiting;
  row.awaits = std::move(awaits);
  row.doing = doing;
  return row;
}

RankRow waiting_in(uint64_t place, uint64_t call, std::vector<int> awaits) {
  RankRow row = waiting(std::move(awaits));
  row.group = place;
  row.call = call;
  return row;
}

RankRow in_state(RankState state, std::vector<int> awaits = {}) {
  RankRow row = waiting(std::move(awaits));
  row.state = state;
  row.process = "process 4711 on host a";
  return row;
}

RankRow failed(int culprit, const std::string& text) {
  RankRow row = in_state(RankState::failed);
  row.culprit = culprit;
  row.failure = text;
  return row;
}

struct Case {
  const char* what;
  Rows rows;
  RankState state;
  int culprit;
  std::vector<int> chain;  ///< from rank 0
};

TEST(Waits, Cause) {
  const Case cases[] = {
      {"a running rank", {waiting({1}), running()}, RankState::running, 1, {0, 1}},
      {"at the end of a chain", {waiting({1}), waiting({2}), waiting({3}), running()}, RankState::running, 3, {0, 1, 2, 3}},
      {"one of several", {waiting({1, 2}), waiting({2}), running()}, RankState::running, 2, {0, 2}},
      {"a stopped one before a running one",
       {waiting({1, 2}), running(), in_state(RankState::stopped)},
       RankState::stopped,
       2,
       {0, 2}},
      {"an ended one before a stopped one",
       {waiting({1, 2}), in_state(RankState::stopped), in_state(RankState::ended)},
       RankState::ended,
       2,
       {0, 2}},
      {"stopped during a wait, while others wait for it",
       {waiting({1}), in_state(RankState::stopped, {0})},
       RankState::stopped,
       1,
       {0, 1}},
      {"a failed one names the cause", {waiting({1}), failed(2, "rank 2: gone"), running()}, RankState::failed, 1, {0, 1}},
      {"a stopped one before another's error about it",
       {waiting({1, 2}), failed(2, "rank 2: gone"), in_state(RankState::stopped)},
       RankState::stopped,
       2,
       {0, 2}},
      {"two that wait for each other", {waiting({1}), waiting({0})}, RankState::waiting, -1, {0, 1}},
      {"a cycle without this rank", {waiting({1}), waiting({2}), waiting({1})}, RankState::waiting, -1, {1, 2}},
      {"a rank in the same call is not waited for",
       {waiting_in(7, 3, {1, 2}), waiting_in(7, 3, {0, 2}), running()},
       RankState::running,
       2,
       {0, 2}},
      {"a rank ahead in the same group is not waited for",
       {waiting_in(7, 3, {1, 2}), waiting_in(7, 4, {0, 2}), running()},
       RankState::running,
       2,
       {0, 2}},
      {"a rank behind in the same group is",
       {waiting_in(7, 3, {1}), waiting_in(7, 2, {2}), running()},
       RankState::running,
       2,
       {0, 1, 2}},
      {"all have arrived, and one was stopped while it moved data",
       {waiting_in(7, 3, {1, 2}), waiting_in(7, 3, {0, 2}), in_state(RankState::stopped)},
       RankState::stopped,
       2,
       {0, 2}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    const Cause cause = find_cause(c.rows, 0);
    EXPECT_EQ(cause.state, c.state);
    EXPECT_EQ(cause.culprit, c.culprit);
    EXPECT_EQ(cause.chain, c.chain);
  }
}

TEST(Waits, Text) {
  Rows rows = {waiting({1}, "receive of 8 float32 \"activation\""), waiting({2}, "all_reduce sum of 8 float32 \"norm\""),
               in_state(RankState::stopped)};
  rows[0].axis = "pp";
  rows[0].members = {0, 1};
  rows[1].axis = "shard";
  rows[1].members = {1, 2};
  const std::string waits =
      "; waits: 0 (pp 0 of 2) in receive of 8 float32 \"activation\" for 1, 1 (shard 0 of 2) in all_reduce sum of 8 float32 "
      "\"norm\" for 2";
  const auto text = [&] { return describe_cause(rows, find_cause(rows, 0), 3.0); };
  EXPECT_EQ(text(), "rank 2 (shard 1 of 2): its process 4711 on host a is stopped (kill -CONT resumes it)" + waits);
  rows[2].state = RankState::ended;
  EXPECT_EQ(text(), "rank 2 (shard 1 of 2): its process 4711 on host a died" + waits);
  rows[2].state = RankState::running;
  EXPECT_EQ(text(), "rank 2 (shard 1 of 2): did not arrive within 3.0 s (process 4711 on host a)" + waits);
  rows[2] = failed(3, "rank 3: gone");
  EXPECT_EQ(text(), "rank 3: gone");
  EXPECT_EQ(blamed_rank(rows, find_cause(rows, 0)), 3);
  rows[1] = waiting({0}, "barrier \"end\"");
  EXPECT_EQ(text(),
            "ranks made no progress within 3.0 s; each awaits the next: 0 (pp 0 of 2) in receive of 8 float32 \"activation\" "
            "for 1, 1 in barrier \"end\" for 0");
}

// However the others came to wait for the culprit, and in any order of giving up, all name it.
TEST(Waits, AllNameTheSameRankInEveryOrder) {
  for (const unsigned seed : test::seeds(300)) {
    SCOPED_TRACE(test::replay(seed));
    test::Random random(seed);
    const int size = 2 + random.below(7), culprit = random.below(size);
    std::vector<int> order;  // each waits for at least one before it; the culprit is first
    for (int rank = 0; rank < size; ++rank) order.push_back((culprit + rank) % size);
    for (int i = size - 1; i > 1; --i) std::swap(order[i], order[1 + random.below(i)]);
    Rows rows(size);
    rows[culprit] = in_state(random.of(std::vector{RankState::running, RankState::stopped, RankState::ended}));
    for (int i = 1; i < size; ++i) {
      std::vector<int> awaits = {order[random.below(i)]};
      for (int other = 0; other < size; ++other) {
        // Other waiting ranks, including later ones: cycles besides the way out.
        if (other != culprit && other != order[i] && random.one_in(4)) awaits.push_back(other);
      }
      rows[order[i]] = waiting(awaits);
    }
    for (int left = size - 1; left > 0; --left) {
      std::vector<int> still;
      for (int rank = 0; rank < size; ++rank) {
        if (rows[rank].state == RankState::waiting && rank != culprit) still.push_back(rank);
      }
      const int rank = random.of(still);
      const Cause cause = find_cause(rows, rank);
      EXPECT_EQ(blamed_rank(rows, cause), culprit) << "reported by rank " << rank;
      rows[rank] = failed(blamed_rank(rows, cause), describe_cause(rows, cause, 1.0));
    }
  }
}

// Ranks of two builds must find the same number for a name.
TEST(CallRecord, NamesAreHashedAlikeInEveryBuild) {
  CallRecord record;
  write_record(record, {.operation = Operation::all_reduce, .numel = 8, .what = "gradients of block 3"}, 1);
  EXPECT_EQ(record.what_hash, fnv1a("gradients of block 3"));
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_TRUE(matches_receive(record, {.operation = Operation::receive, .numel = 8, .what = "gradients of block 3"}));
}

}  // namespace
}  // namespace weft
