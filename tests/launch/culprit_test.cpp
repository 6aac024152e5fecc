// Culprit: whom the launcher blames, for every order of events that matters.
#include "weft/launch/culprit.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace weft {
namespace {

constexpr int exited(int status) { return status << 8; }

RankOutcome ended(int rank, int64_t at, int wait_status) {
  return {.rank = rank,
          .ended = true,
          .ended_ns = at,
          .wait_status = wait_status,
          .ended_by_us = false,
          .stopped = false,
          .said = {}};
}

RankOutcome said(RankOutcome outcome, int64_t at, Blame blame, const std::string& text) {
  outcome.said.push_back({.time_ns = at, .rank = outcome.rank, .blame = blame, .culprit = -1, .text = text});
  return outcome;
}

/// An echo that names a rank.
RankOutcome named(RankOutcome outcome, int64_t at, int culprit, const std::string& text) {
  outcome.said.push_back({.time_ns = at, .rank = outcome.rank, .blame = Blame::peer, .culprit = culprit, .text = text});
  return outcome;
}

RankOutcome stopped(RankOutcome outcome) {
  outcome.stopped = true;
  return outcome;
}

RankOutcome alive(int rank) {
  return {.rank = rank, .ended = false, .ended_ns = 0, .wait_status = 0, .ended_by_us = false, .stopped = false, .said = {}};
}

RankOutcome ended_by_us(int rank, int wait_status) {
  RankOutcome outcome = ended(rank, 99, wait_status);
  outcome.ended_by_us = true;
  return outcome;
}

RankOutcome with_status(RankOutcome outcome, int status) {
  outcome.said.front().status = status;
  return outcome;
}

struct Case {
  const char* what;
  std::vector<RankOutcome> outcomes;
  bool failed, certain;
  int status;
  std::string error;
};

TEST(Culprit, Table) {
  const Case cases[] = {
      {"nothing yet", {alive(0), alive(1)}, false, false, 0, ""},
      {"all well", {ended(0, 5, 0), ended(1, 6, 0)}, false, false, 0, ""},
      {"a status", {alive(0), ended(1, 5, exited(3))}, true, true, 3, "rank 1: ended with status 3"},
      {"the first of two", {ended(0, 7, exited(2)), ended(1, 5, exited(3))}, true, true, 3, "rank 1: ended with status 3"},
      {"a message and its status",
       {said(ended(0, 9, exited(4)), 8, Blame::self, "no such file"), alive(1)},
       true,
       true,
       4,
       "rank 0: no such file"},
      {"a message, not ended yet", {said(alive(0), 8, Blame::self, "bad"), alive(1)}, true, true, 1, "rank 0: bad"},
      {"a message, then ended by us", {said(ended_by_us(0, SIGTERM), 8, Blame::self, "bad")}, true, true, 1, "rank 0: bad"},
      {"a message with a status, then ended by us",
       {with_status(said(ended_by_us(0, SIGTERM), 8, Blame::self, "bad"), 4)},
       true,
       true,
       4,
       "rank 0: bad"},
      {"only an echo so far", {said(alive(0), 8, Blame::peer, "rank 1 died"), alive(1)}, true, false, 1, "rank 0: rank 1 died"},
      {"a killed rank, though the echo came first",
       {said(ended(0, 9, exited(1)), 4, Blame::peer, "rank 1 died"), ended(1, 8, SIGSEGV)},
       true,
       true,
       128 + SIGSEGV,
       "rank 1: killed by signal 11 (Segmentation fault)"},
      {"a rank's own error, though the echo came first",
       {said(alive(0), 4, Blame::peer, "rank 1 died"), said(alive(1), 5, Blame::self, "loss is nan")},
       true,
       true,
       1,
       "rank 1: loss is nan"},
      {"the first of two echoes",
       {said(alive(0), 6, Blame::peer, "later"), said(alive(1), 5, Blame::peer, "earlier")},
       true,
       false,
       1,
       "rank 1: earlier"},
      {"an echo that names a rank", {named(alive(0), 4, 1, "rank 1: late"), alive(1)}, true, false, 1, "rank 1: late"},
      {"an echo of an echo",
       {named(alive(0), 4, 1, "rank 1: late"), named(alive(1), 5, 2, "rank 2: late"), alive(2)},
       true,
       false,
       1,
       "rank 2: late"},
      {"two that name each other",
       {named(alive(0), 4, 1, "rank 1: late"), named(alive(1), 5, 0, "rank 0: late")},
       true,
       false,
       1,
       "rank 1: late"},
      {"a stopped rank, which nobody names",
       {said(alive(0), 4, Blame::peer, "lost"), stopped(alive(1))},
       true,
       false,
       1,
       "rank 1: stopped by a signal; other ranks waited for it"},
      {"a stopped rank, which one names, though the first names another",
       {named(alive(0), 4, 1, "rank 1: late"), named(alive(1), 5, 2, "rank 2: is stopped"), stopped(alive(2))},
       true,
       false,
       1,
       "rank 2: is stopped"},
      {"a stopped rank, but another failed on its own",
       {said(alive(0), 4, Blame::self, "no such file"), stopped(alive(1))},
       true,
       true,
       1,
       "rank 0: no such file"},
      {"a stopped rank alone is no failure", {alive(0), stopped(alive(1))}, false, false, 0, ""},
      {"ended by us is no failure", {ended_by_us(0, SIGTERM), ended_by_us(1, exited(1))}, false, false, 0, ""},
      {"the first thing a rank says",
       {said(said(alive(0), 3, Blame::self, "one"), 4, Blame::self, "two")},
       true,
       true,
       1,
       "rank 0: one"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    const Verdict verdict = find_culprit(c.outcomes);
    EXPECT_EQ(verdict.failed, c.failed);
    EXPECT_EQ(verdict.certain, c.certain);
    EXPECT_EQ(verdict.status, c.status);
    EXPECT_EQ(verdict.error, c.error);
  }
}

TEST(Culprit, KilledWithoutReasonHintsAtMemory) {
  const Verdict verdict = find_culprit({ended(0, 5, SIGKILL)});
  EXPECT_EQ(verdict.status, 137);
  EXPECT_NE(verdict.error.find("memory"), std::string::npos) << verdict.error;
}

RankOutcome lost(int rank, int64_t heard) {
  RankOutcome outcome = ended(rank, heard, 0);
  outcome.host = "b";
  outcome.host_loss = "host b (ranks 2 to 3) has not answered for 10.0 s";
  return outcome;
}

TEST(Culprit, ALostHostIsToBlameForEchoes) {
  const RankOutcome echo = named(alive(0), 5, 2, "rank 2: did not come to all_reduce");
  const Verdict verdict = find_culprit({echo, alive(1), lost(2, 3), lost(3, 3)});
  EXPECT_TRUE(verdict.certain);
  EXPECT_EQ(verdict.status, 1);
  EXPECT_EQ(verdict.error, "host b (ranks 2 to 3) has not answered for 10.0 s; rank 0: rank 2: did not come to all_reduce");
}

TEST(Culprit, AFailureBeforeAHostWasLostIsTheCause) {
  EXPECT_EQ(find_culprit({ended(0, 1, exited(7)), lost(1, 5)}).error, "rank 0: ended with status 7");
  EXPECT_EQ(find_culprit({ended(0, 9, exited(7)), lost(1, 5)}).status, 1);
}

TEST(Culprit, ARankIsNamedWithItsHost) {
  RankOutcome outcome = ended(3, 1, exited(7));
  outcome.host = "b";
  EXPECT_EQ(find_culprit({outcome}).error, "rank 3 on host b: ended with status 7");
}

}  // namespace
}  // namespace weft
