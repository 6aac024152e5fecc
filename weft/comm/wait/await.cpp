#include "weft/comm/wait/await.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "weft/comm/store/store_errors.h"
#include "weft/comm/store/waited.h"
#include "weft/comm/wait/rank_table.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kShowAfter{20};
/// Delay before a rank's earlier failure counts, since the rank may continue; also the interval of checks on this host.
constexpr milliseconds kLookAfter{200};
/// Longest interval between checks of other hosts' ranks, each a trip to the store; the key itself ends the wait at once.
constexpr milliseconds kLookAtLast{3200};

// Reports before this rank's memory and connections go, because ranks that miss them look for the reason.
[[noreturn]] void give_up(Store& store, const RankRow& wait, double waited_s) {
  const RankTable::Report report = store.table()->report(wait, waited_s);
  try {
    throw_failure(report.culprit, report.text);
  } catch (const Error& error) {
    report_failure(store, error);
    throw;
  }
}

[[noreturn]] void throw_silent(const Store& store, const RankRow& wait, double waited_s) {
  const RankTable::Report report = store.table()->report(wait, waited_s);
  if (report.evident()) throw_failure(report.culprit, report.text);
  const std::string text =
      fmt::format("{}: the store, which {} serves, has not answered for {:.1f} s", wait.doing, store.server(), waited_s);
  store.table()->fail(-1, text);  // so that others do not blame this rank for leaving
  throw CommError(text);
}

// A wait that is shown in the table after a moment, and the schedule of checks of the awaited ranks.
class Lookout {
 public:
  Lookout(const Store& store, const RankRow& wait) : table_(store.table()), wait_(wait) {}

  void show() {
    if (!waiting_ && Clock::now() - begin_ >= kShowAfter) waiting_.emplace(table_, wait_);
  }
  void now_awaits(const std::vector<int>& ranks) {
    if (waiting_) waiting_->now_awaits(ranks);
  }
  /// Returns whether to check `rank` now: with growing intervals for another host's (such as -1).
  bool is_time(int rank) {
    const bool here = rank >= 0 && table_->on_this_host(rank);
    auto& [next, pause] = here ? here_ : elsewhere_;
    if (Clock::now() < next) return false;
    next = Clock::now() + pause;
    if (!here) pause = std::min(pause * 2, kLookAtLast);
    return true;
  }

 private:
  struct Turn {
    Clock::time_point next = Clock::now() + kLookAfter;
    milliseconds pause = kLookAfter;
  };
  std::shared_ptr<RankTable> table_;
  const RankRow& wait_;
  Clock::time_point begin_ = Clock::now();
  std::optional<RankTable::Waiting> waiting_;
  Turn here_, elsewhere_;
};

bool cannot_arrive(const RankRow& row) { return row.state == RankState::failed || row.state == RankState::ended; }

}  // namespace

RankRow wait_for_rank(int rank, const std::string& doing) {
  RankRow row;
  row.awaits = {rank};
  row.doing = doing;
  return row;
}

std::string await_key(Store store, const std::string& key, const Deadline& deadline, const RankRow& wait) {
  Lookout lookout(store, wait);
  const int rank = wait.awaits.front();
  const auto go_on = [&] {
    lookout.show();
    return !lookout.is_time(rank) || !cannot_arrive(store.table()->read(rank));
  };
  const Waited waited = store.await(key, deadline, {kShowAfter, go_on});
  const double timeout_s = std::chrono::duration<double>(deadline.timeout()).count();
  if (waited.end == WaitEnd::came) return waited.values.front();
  if (waited.end == WaitEnd::silent) throw_silent(store, wait, timeout_s);
  // Keys it set before it ended still count.
  if (waited.end == WaitEnd::called_off && store.has(key)) return store.get(key, deadline, wait.doing);
  give_up(store, wait, timeout_s);
}

std::vector<std::string> gather_all(Store store, const std::string& name, const std::string& value, const Deadline& deadline,
                                    RankRow wait) {
  const RankTable& table = *store.table();
  const auto own_place = std::find(wait.members.begin(), wait.members.end(), table.rank());
  const Contribution own{name, static_cast<int>(own_place - wait.members.begin()), static_cast<int>(wait.members.size()),
                         value};
  wait.awaits = wait.members;
  std::erase(wait.awaits, table.rank());
  const auto narrow = [&wait](const Gathered& gathered) {
    if (gathered.missing_ranks.empty()) return false;
    wait.awaits.clear();
    for (const int position : gathered.missing_ranks) wait.awaits.push_back(wait.members.at(static_cast<size_t>(position)));
    return true;
  };
  Lookout lookout(store, wait);
  bool gone_before = false;
  const auto go_on = [&] {
    lookout.show();
    // Ranks of this host are checked without the store; a rank that has gone may have arrived before.
    const bool gone = !gone_before && lookout.is_time(table.rank()) && table.any_gone(wait.awaits);
    gone_before |= gone;
    if (!gone && !lookout.is_time(-1)) return true;
    if (!narrow(store.missing(own, kToAnswer))) return true;
    lookout.now_awaits(wait.awaits);
    return !table.any_gone(wait.awaits) && !cannot_arrive(table.read(wait.awaits.front()));
  };
  Gathered gathered = store.gather(own, deadline, {kShowAfter, go_on});
  const double timeout_s = std::chrono::duration<double>(deadline.timeout()).count();
  if (gathered.end == WaitEnd::came) return std::move(gathered.values);
  if (gathered.end == WaitEnd::silent) throw_silent(store, wait, timeout_s);
  if (gathered.other_rank >= 0) {
    throw CommError(fmt::format("{}: rank {} expects {} ranks there, but rank {} expects {}", wait.doing, table.rank(),
                                own.size, gathered.other_rank, gathered.other_size));
  }
  narrow(gathered);
  give_up(store, wait, timeout_s);
}

void await_all(Store store, const std::string& name, const Deadline& deadline, RankRow wait) {
  gather_all(std::move(store), name, "", deadline, std::move(wait));
}

void report_failure(Store& store, const Error& error) {
  store.table()->fail(lost_rank_of(error), error.what(), dynamic_cast<const CommError*>(&error) != nullptr);
  store.announce(error);
}

}  // namespace weft
