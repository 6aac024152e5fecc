#include "weft/comm/wait/await.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "weft/comm/store/answer_time.h"
#include "weft/comm/store/lost_rank.h"
#include "weft/comm/wait/rank_table.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kShowAfter{20};
/// Before a rank's earlier failure counts, as it may be about to go on; and between two looks.
constexpr milliseconds kLookAfter{200};

// Told before what this rank has made for the others goes (its memory, its connections): whoever finds that gone asks why.
[[noreturn]] void give_up(Store& store, const RankRow& wait, double waited_s) {
  const RankTable::Report report = store.table()->report(wait, waited_s);
  try {
    throw_failure(report.culprit, report.text);
  } catch (const Error& error) {
    tell_failure(store, error);
    throw;
  }
}

[[noreturn]] void throw_silent(const Store& store, const RankRow& wait, double waited_s) {
  const RankTable::Report report = store.table()->report(wait, waited_s);
  if (report.evident()) throw_failure(report.culprit, report.text);
  const std::string text =
      fmt::format("{}: the store, which {} serves, has not answered for {:.1f} s", wait.doing, store.server(), waited_s);
  store.table()->fail(-1, text);  // so that others do not blame this rank for going
  throw CommError(text);
}

bool cannot_come(const RankRow& row) { return row.state == RankState::failed || row.state == RankState::ended; }

}  // namespace

RankRow wait_for_rank(int rank, const std::string& doing) {
  RankRow row;
  row.awaits = {rank};
  row.doing = doing;
  return row;
}

std::string await_key(Store store, const std::string& key, const Deadline& deadline, const RankRow& wait) {
  const auto begin = Clock::now();
  const int rank = wait.awaits.front();
  auto pause = std::chrono::microseconds(100);
  std::optional<RankTable::Waiting> waiting;
  auto look = begin + kLookAfter;
  const double timeout_s = std::chrono::duration<double>(deadline.timeout()).count();
  while (true) {
    const std::optional<bool> there = store.has(key, deadline.with_at_least(kToAnswer));
    if (there == true) break;
    if (!there) throw_silent(store, wait, timeout_s);
    store.throw_if_failed();
    const auto now = Clock::now();
    if (!waiting && now - begin >= kShowAfter) waiting.emplace(store.table(), wait);
    bool gone = false;
    if (now >= look) {
      look = now + kLookAfter;
      gone = cannot_come(store.table()->read(rank)) && !store.has(key);  // what it set before it went still counts
    }
    if (gone || deadline.passed()) give_up(store, wait, timeout_s);
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(20000));
  }
  return store.get(key, deadline, wait.doing);
}

void tell_failure(Store& store, const Error& error) {
  store.table()->fail(lost_rank_of(error), error.what());
  store.announce(error);
}

}  // namespace weft
