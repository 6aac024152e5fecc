// The table's rows: other ranks' view of a wait and of a failure, and when a failure is past.
#include "weft/comm/wait/rank_table.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <numeric>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tests/support/wait_until.h"
#include "weft/base/process.h"
#include "weft/comm/store/c10d_store.h"
#include "weft/comm/store/store.h"
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
    waiting.now_awaits({0});
    EXPECT_EQ(tables[0]->read(1).awaits, (std::vector<int>{0}));
  }
  EXPECT_EQ(tables.state(0, 1), RankState::running);
}

TEST(RankTable, TheOldestOfSeveralWaitsIsSeen) {
  const Tables tables;
  const auto seen = [&tables] { return tables[0]->read(1).awaits; };
  std::optional<RankTable::Waiting> first(std::in_place, tables[1], wait_for({0}));
  std::optional<RankTable::Waiting> second(std::in_place, tables[1], wait_for({2}));
  second->now_awaits({0, 2});
  EXPECT_EQ(seen(), (std::vector<int>{0}));
  first.reset();
  EXPECT_EQ(seen(), (std::vector<int>{0, 2})) << "the other continues";
  second.reset();
  EXPECT_EQ(tables.state(0, 1), RankState::running);
}

TEST(RankTable, LongRowsAreCutAndStayReadable) {
  const Tables tables;
  RankRow row = wait_for({2});
  row.doing = std::string(100'000, 'x');
  const RankTable::Waiting waiting(tables[1], row);
  tables[1]->fail(2, std::string(100'000, 'y'));
  EXPECT_EQ(tables[0]->read(1).awaits, (std::vector<int>{2}));
  EXPECT_EQ(tables[0]->read(1).failure, std::string(1024, 'y'));
}

TEST(RankTable, TheFirstErrorOfAMeetingIsAdopted) {
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

TEST(RankTable, AFailureIsPastAfterFailingTooOrContinuingTogether) {
  const Tables tables;
  for (const int rank : {0, 1, 2}) tables[rank]->begin_meeting(4);
  tables[1]->fail(-1, "refused");
  tables[0]->fail(-1, "refused");
  EXPECT_EQ(tables.state(0, 1), RankState::running) << "it failed itself";
  EXPECT_EQ(tables.state(2, 1), RankState::failed) << "it still waits in that meeting";
  tables[1]->begin_meeting(5);
  EXPECT_EQ(tables.state(2, 1), RankState::failed) << "the other has continued without it";
  tables[2]->begin_meeting(5);
  EXPECT_EQ(tables.state(2, 1), RankState::running) << "both have continued";
  tables[1]->begin_meeting(6);
  EXPECT_EQ(tables.state(2, 1), RankState::running) << "the other is further ahead";
  tables[2]->begin_meeting(6);
  tables[1]->fail(-1, "again");
  EXPECT_EQ(tables.state(0, 1), RankState::failed) << "in a later meeting";
}

/// A store inside this process that may disappear or stop answering.
class UnsteadyStore : public PollingConnection {
 public:
  enum class Mood { well, gone, silent };
  UnsteadyStore() : PollingConnection("rank 0", std::chrono::seconds(10)) {}
  bool run(std::function<void(c10d::Store&)> call, const Deadline& deadline) override {
    TORCH_CHECK(mood != Mood::gone, "Connection reset by peer");
    if (mood == Mood::silent) std::this_thread::sleep_until(deadline.end());
    if (mood == Mood::well) call(*store_);
    return mood == Mood::well;
  }
  std::atomic<Mood> mood = Mood::well;

 private:
  c10::intrusive_ptr<c10d::HashStore> store_ = c10::make_intrusive<c10d::HashStore>();
};

TEST(RankTable, AFailureIsPublishedToOtherHostsImmediately) {
  const Store store(std::make_shared<UnsteadyStore>());
  const auto tables = RankTable::threads(store, {"a", "b"});
  tables[1]->begin_meeting(1);
  tables[1]->fail(1, "rank 1: gone");
  const RankRow row = tables[0]->read(1);
  EXPECT_EQ(row.state, RankState::failed);
  EXPECT_EQ(row.failure, "rank 1: gone");
}

TEST(RankTable, WithoutTheStoreRanksOfThisHostAreStillKnown) {
  for (const auto mood : {UnsteadyStore::Mood::gone, UnsteadyStore::Mood::silent}) {
    const auto connection = std::make_shared<UnsteadyStore>();
    std::vector<std::string> hosts(20, "b");
    hosts[0] = hosts[1] = "a";
    const auto tables = RankTable::threads(Store(connection), hosts);
    for (const int rank : {0, 1}) tables[rank]->begin_meeting(1);
    connection->mood = mood;
    const auto begin = std::chrono::steady_clock::now();
    tables[1]->fail(7, "rank 7: gone");
    std::vector<int> all(hosts.size());
    std::iota(all.begin(), all.end(), 0);
    const RankTable::Report report = tables[0]->report(wait_for(all), 1.0);
    EXPECT_EQ(report.text, "rank 7: gone");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << "one wait for the store, not one per rank";
    connection->mood = UnsteadyStore::Mood::gone;  // so that the tables end quickly
  }
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

// One that is reaped between opening and reading its file in /proc has ended; that is no error.
TEST(ProcessState, HandlesAProcessThatEndsDuringTheCheck) {
  for (int i = 0; i < 200; ++i) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    std::atomic<bool> gone = false;
    std::thread reaper([&] {
      ::waitpid(child, nullptr, 0);
      gone = true;
    });
    EXPECT_NO_THROW({
      while (!gone) process_state(child);
    });
    reaper.join();
    EXPECT_EQ(process_state(child), ProcessState::ended);
  }
}

}  // namespace
}  // namespace weft
