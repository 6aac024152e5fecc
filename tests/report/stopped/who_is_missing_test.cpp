#include "weft/report/stopped/who_is_missing.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/report/stopped/blame_text.h"
#include "weft/report/stopped/flight_recorder.h"

namespace weft::who_is_missing_test {
namespace {

CallEvidence call(uint64_t number, const std::string& state) {
  return {.number = number,
          .order = number,
          .operation = "all_reduce",
          .dtype = "float32",
          .reduce = "sum",
          .name = "gradients",
          .numel = 8,
          .begun_s = 100.0,
          .ended_s = state == "completed" ? 101.0 : 0.0,
          .state = state};
}

RankEvidence waiting(int rank, int ranks, uint64_t number, std::vector<int> awaits) {
  std::vector<int> all;
  for (int r = 0; r < ranks; ++r) all.push_back(r);
  return {.rank = rank,
          .ranks = ranks,
          .pid = 10 + rank,
          .host = "a",
          .time_s = 160.0,
          .step = 3,
          .operation = "reduce",
          .waits_in = "all_reduce sum of 8 float32 \"gradients\"",
          .wait_axis = "dp",
          .wait_ranks = all,
          .awaits = std::move(awaits),
          .groups = {{.id = "g",
                      .axis = "dp",
                      .backend = "shm",
                      .ranks = all,
                      .collectives = number,
                      .calls = {call(number, "started")}}}};
}

RankEvidence hanging(int rank, int ranks, uint64_t number) {
  RankEvidence one = waiting(rank, ranks, number, {});
  one.operation = "forward";
  one.block = "layers.2";
  one.micro = 1;
  one.waits_in = "";
  one.groups[0].calls = {call(number, "completed")};
  one.threads = {
      {10 + rank, "weft", {"clock_nanosleep [libc.so.6]", "void std::this_thread::sleep_for", "my_block_forward", "main"}}};
  return one;
}

TEST(WhoIsMissing, NamesRankCallBlockAndFunction) {
  Evidence all = {waiting(0, 4, 217, {3}), waiting(1, 4, 217, {3}), waiting(2, 4, 217, {3}), hanging(3, 4, 216)};
  const HangVerdict verdict = who_is_missing(all);
  EXPECT_EQ(verdict.culprit, 3);
  EXPECT_EQ(verdict.text,
            "rank 3 (dp 3 of 4) did not come to all_reduce sum of 8 float32 \"gradients\" (call 217 of dp), in which ranks 0, "
            "1, 2 have "
            "waited 60.0 s: it is in forward of block 'layers.2', micro-batch 1, step 3, in my_block_forward()");
}

// Two ranks are behind; the errors' chain of waits knows which of them is the cause.
TEST(WhoIsMissing, FollowsTheFirstErrorThatNamesARank) {
  Evidence all = {waiting(0, 3, 5, {1, 2}), hanging(1, 3, 4), hanging(2, 3, 4)};
  all[0].has_failed = true;
  all[0].culprit = 2;
  all[0].error = "rank 2 (dp 2 of 3): did not arrive";
  EXPECT_EQ(who_is_missing(all).culprit, 2);
  EXPECT_EQ(who_is_missing(all).call->missing, (std::vector<int>{1, 2}));
}

TEST(WhoIsMissing, ARankWithoutEvidenceIsDescribedByOthers) {
  Evidence all = {waiting(0, 2, 9, {1})};
  EXPECT_NE(who_is_missing(all).text.find("it has left no evidence"), std::string::npos);
  all[0].lost = {{1, "stopped", "process 7 on host b"}};
  EXPECT_NE(
      who_is_missing(all).text.find("(call 9 of dp), in which rank 0 has waited 60.0 s: its process 7 on host b is stopped"),
      std::string::npos)
      << who_is_missing(all).text;
}

TEST(WhoIsMissing, AMessage) {
  Evidence all = {waiting(0, 2, 1, {1}), hanging(1, 2, 0)};
  all[0].groups[0].calls = {{.number = 4,
                             .operation = "receive",
                             .dtype = "float32",
                             .name = "activation",
                             .numel = 8,
                             .peer = 1,
                             .begun_s = 150.0,
                             .state = "started"}};
  all[0].groups[0].collectives = 0;
  EXPECT_EQ(who_is_missing(all).text,
            "rank 1 (dp 1 of 2) did not come to receive of 8 float32 from rank 1 \"activation\", in which rank 0 has waited "
            "10.0 s: it is "
            "in forward of block 'layers.2', micro-batch 1, step 3, in my_block_forward()");
}

TEST(WhoIsMissing, CallsThatDifferAreListed) {
  Evidence all = {waiting(0, 2, 9, {1}), hanging(1, 2, 8)};
  const std::vector<DifferingCalls> differing = differing_calls(all);
  ASSERT_EQ(differing.size(), 1u);
  EXPECT_EQ(differing[0].last[0].number, 9u);
  EXPECT_EQ(differing[0].last[1].number, 8u);
  const std::string text = blame_text(all, {"rank-7.json is damaged"});
  for (const char* part : {"rank 1    forward of block 'layers.2'", "last calls of dp:", "9 all_reduce", "(started)",
                           "my_block_forward\n", "rank-7.json is damaged"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(WhoIsMissing, NothingIsKnown) {
  EXPECT_EQ(who_is_missing({}).text, "");
  EXPECT_EQ(blame_text({}, {}), "\n");
}

TEST(RankEvidence, IsReadBack) {
  RankEvidence one = hanging(1, 2, 8);
  one.instruction = 12;
  one.lost = {{0, "ended", "process 3 on host a"}};
  one.has_failed = true;
  one.error = "so";
  const std::string text = evidence_json(one);
  EXPECT_EQ(evidence_json(parse_evidence(text, "x")), text);
  for (const char* damaged :
       {"", "{", "[]", "{\"rank\":-1}", "{\"rank\":\"a\"}", "{\"rank\":5,\"ranks\":2}", "{\"rank\":0,\"groups\":3}"}) {
    EXPECT_THROW(parse_evidence(damaged, "x"), InputError) << damaged;
  }
}

TEST(FlightRecorder, LeavesOutWhatSomeGroupNoLongerHas) {
  RankEvidence one = waiting(0, 2, 100, {1});
  one.groups[0].calls.clear();
  for (uint64_t number = 37; number <= 100; ++number) one.groups[0].calls.push_back(call(number, "completed"));
  one.groups[0].calls.front().begun_s = 50.0;
  one.groups.push_back(one.groups[0]);
  one.groups[1].id = "other";
  one.groups[1].calls = {call(1, "completed")};
  one.groups[1].calls.front().name = "too old";
  one.groups[1].calls.front().begun_s = 40.0;
  const std::string dump = flight_recorder_dump(one);
  EXPECT_EQ(dump.find("too old"), std::string::npos);
  EXPECT_NE(dump.find("gradients"), std::string::npos);
  EXPECT_EQ(dump.substr(0, 2), "\x80\x02");
}

}  // namespace
}  // namespace weft::who_is_missing_test
