#include "weft/train/save/rank_meeting.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "weft/base/error.h"
#include "weft/comm/wait/rank_table.h"
#include "weft/comm/wait/waits.h"

namespace weft {
namespace {

constexpr const char* kFailed = "failed";

std::string of_rank(const std::string& key, int rank) { return fmt::format("{} {}", key, rank); }

}  // namespace

RankMeeting::RankMeeting(const World& world, std::string doing, std::chrono::milliseconds timeout,
                         std::chrono::milliseconds stopped)
    : rank_(world.rank()), size_(world.size()), doing_(std::move(doing)), timeout_(timeout), stopped_(stopped) {
  if (size_ > 1) store_ = world.next_group_store();
}

void RankMeeting::send(const std::string& key, const std::string& value) {
  if (store_) store_->set(of_rank(key, rank_), value, to_answer());
}

std::string RankMeeting::wait_for(const std::string& key, int rank) { return wait_for(key, rank, timeout_); }

std::string RankMeeting::wait_for(const std::string& key, int rank, std::chrono::milliseconds timeout) {
  look(of_rank(key, rank), rank, timeout);
  return store_->get(of_rank(key, rank), to_answer(), doing_);
}

std::string RankMeeting::take(const std::string& key, int rank) {
  std::string value = wait_for(key, rank);
  answering().remove(of_rank(key, rank));
  return value;
}

/// Waits until the key is set.
void RankMeeting::look(const std::string& key, int rank, std::chrono::milliseconds timeout) {
  const Deadline deadline = timeout;
  Deadline of_stopped = stopped_;  // counted from when it was last seen running
  auto pause = std::chrono::microseconds(200);
  for (int looks = 1;; ++looks) {
    Store store = answering();
    if (store.has(key)) return;
    if (given_up_) check();
    try {
      throw_if_failed(store);
      store.throw_if_failed();
    } catch (const CommError&) {
      if (store.has(key)) return;  // sent before what failed: who reads it fails where the others do
      throw;
    }
    const RankState state = looks % 10 == 0 ? store.table()->read(rank).state : RankState::running;
    const bool gone = (state == RankState::failed || state == RankState::ended) && !store.has(key);
    if (gone) throw CommError(fmt::format("rank {} has ended while rank {} waited for it, {}", rank, rank_, doing_));
    if (looks % 10 == 0 && state != RankState::stopped) of_stopped = Deadline(stopped_);
    if (of_stopped.passed()) {
      throw CommError(fmt::format("rank {} is stopped by a signal (kill -CONT resumes it) while rank {} waited for it, {}",
                                  rank, rank_, doing_));
    }
    if (deadline.passed()) {
      throw CommError(fmt::format("rank {} has reported nothing for {:.1f} s while rank {} waited for it, {}", rank,
                                  std::chrono::duration<double>(timeout).count(), rank_, doing_));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(20000));
  }
}

void RankMeeting::check() {
  if (given_up_) throw Error(fmt::format("{}: given up because the training has ended", doing_));
  if (store_) throw_if_failed(answering());
}

void RankMeeting::throw_if_failed(Store store) {
  if (store.has(kFailed)) throw CommError(store.get(kFailed, to_answer(), doing_));
}

/// The first report wins.
void RankMeeting::fail(const std::string& why) {
  if (!store_) return;
  Store store = answering();
  if (!store.has(kFailed)) store.set(kFailed, why);
}

std::string RankMeeting::of_rank_zero(const std::string& value, std::optional<std::chrono::milliseconds> timeout) {
  if (rank_ > 0) return wait_for("value", 0, timeout.value_or(timeout_));
  send("value", value);
  return value;
}

/// Rank 0 serves the store, and may end because of its own report.
void RankMeeting::wait_until_heard() {
  try {
    for (int rank = 1; rank < size_; ++rank) wait_for("heard", rank);
  } catch (const Error&) {
    // An ended rank needs no report.
  }
}

std::string RankMeeting::verdict(const std::string& own, std::optional<std::chrono::milliseconds> timeout) {
  if (!store_) return own;
  const std::chrono::milliseconds patience = timeout.value_or(timeout_);
  send("end", own);
  if (rank_ == 0) {
    std::string first = own;
    for (int rank = 1; rank < size_; ++rank) {
      const std::string theirs = wait_for("end", rank, patience);
      if (first.empty()) first = theirs;
    }
    send("verdict", first);
    if (!first.empty()) wait_until_heard();
  }
  const std::string verdict = wait_for("verdict", 0, patience);
  if (rank_ > 0 && !verdict.empty()) send("heard", "");
  return verdict;
}

}  // namespace weft
