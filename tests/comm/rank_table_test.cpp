// The table's rows: what the others read of a wait and of a failure, and when a failure is past.
#include "weft/comm/rank_table.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/wait_until.h"
#include "weft/comm/process.h"
#include "weft/comm/store.h"
#include "weft/comm/world.h"

namespace weft {
namespace {

/// The tables of three ranks.
struct Tables {
  std::shared_ptr<RankTable> operator[](int rank) const { return worlds[rank].store().table(); }
  RankState state(int reader, int rank) const { return (*this)[reader]->read(rank).state; }
  const std::vector<World> worlds = World::threads(3);
};

RankRow wait_for(std::vector<int> ranks) {
  RankRow row;
  row.axis = "dp";
  row.members = {0, 1, 2};
  row.awaits = std::move(ranks);
  row.doing = "barrier \"end\nof step\"";
  return row;
}

TEST(RankTable, AWaitIsSeenWhileItLasts) {
  const Tables tables;
  EXPECT_EQ(tables.state(0, 1), RankState::running);
  {
    RankTable::Waiting waiting(tables[1], wait_for({0, 2}));
    const RankRow row = tables[0]->read(1);
    EXPECT_EQ(row.state, RankState::waiting);
    EXPECT_EQ(row.axis, "dp");
    EXPECT_EQ(row.members, (std::vector<int>{0, 1, 2}));
    EXPECT_EQ(row.awaits, (std::vector<int>{0, 2}));
    EXPECT_EQ(row.doing, "barrier \"end of step\"");
    const RankTable::Waiting another(tables[1], wait_for({2}));  // of another thread: the first counts
    waiting.now_awaits({0});
    EXPECT_EQ(tables[0]->read(1).awaits, (std::vector<int>{0}));
  }
  EXPECT_EQ(tables.state(0, 1), RankState::running);
}

TEST(RankTable, LongRowsAreCutAndStayWhole) {
  const Tables tables;
  RankRow row = wait_for({2});
  row.doing = std::string(100'000, 'x');
  const RankTable::Waiting waiting(tables[1], row);
  tables[1]->fail(2, std::string(100'000, 'y'));
  EXPECT_EQ(tables[0]->read(1).awaits, (std::vector<int>{2}));
  EXPECT_EQ(tables[0]->read(1).failure, std::string(1024, 'y'));
}

TEST(RankTable, TheFirstErrorOfAMeetingIsTakenOver) {
  const Tables tables;
  for (const int rank : {0, 1, 2}) tables[rank]->begin_meeting(4);
  tables[1]->fail(2, "rank 2: gone");
  tables[1]->fail(0, "rank 0: gone");
  const RankTable::Report report = tables[0]->report(wait_for({1}), 1.0);
  EXPECT_EQ(report.state, RankState::failed);
  EXPECT_EQ(report.culprit, 2);
  EXPECT_EQ(report.text, "rank 2: gone");
  EXPECT_TRUE(tables[0]->any_gone({0, 1}));
  EXPECT_FALSE(tables[0]->any_gone({0, 2}));
}

TEST(RankTable, AFailureIsPastForThoseWhoFailedThemselvesOrWentOnTogether) {
  const Tables tables;
  for (const int rank : {0, 1, 2}) tables[rank]->begin_meeting(4);
  tables[1]->fail(-1, "refused");
  tables[0]->fail(-1, "refused");
  EXPECT_EQ(tables.state(0, 1), RankState::running) << "it failed itself";
  EXPECT_EQ(tables.state(2, 1), RankState::failed) << "it still waits in that meeting";
  tables[1]->begin_meeting(5);
  EXPECT_EQ(tables.state(2, 1), RankState::failed) << "the other has gone on without it";
  tables[2]->begin_meeting(5);
  EXPECT_EQ(tables.state(2, 1), RankState::running) << "both have gone on";
  tables[1]->fail(-1, "again");
  EXPECT_EQ(tables.state(0, 1), RankState::failed) << "in a later one";
}

TEST(ProcessState, RunsIsStoppedAndEnds) {
  const pid_t child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  const auto is = [child](ProcessState state) { return [child, state] { return process_state(child) == state; }; };
  EXPECT_TRUE(wait_until(is(ProcessState::runs), 10));
  ::kill(child, SIGSTOP);
  EXPECT_TRUE(wait_until(is(ProcessState::stopped), 10));
  ::kill(child, SIGCONT);
  EXPECT_TRUE(wait_until(is(ProcessState::runs), 10));
  ::kill(child, SIGKILL);
  EXPECT_TRUE(wait_until(is(ProcessState::ended), 10)) << "as a zombie";
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(process_state(child), ProcessState::ended) << "reaped";
  EXPECT_EQ(process_state(::getpid()), ProcessState::runs);
}

}  // namespace
}  // namespace weft
