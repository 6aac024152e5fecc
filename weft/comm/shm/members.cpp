#include "weft/comm/shm/members.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "weft/base/cores.h"
#include "weft/comm/shm/wait.h"
#include "weft/comm/store/store_errors.h"

namespace weft::shm {
namespace {

// A contradiction between two waits counts only after this many unchanged sightings in a row, because a peer's fields are not
// read atomically together.
constexpr int kSightings = 4;

}  // namespace

Members::Members(Control& control, Axis axis, std::shared_ptr<RankTable> table, std::chrono::milliseconds timeout)
    : control_(control), axis_(std::move(axis)), table_(std::move(table)), timeout_(timeout), watched_(axis_.ranks.size()) {
  block(rank()).pid.store(::getpid());
  const CoreSet own = affinity();
  for (size_t core = 0; core < own.size(); ++core) {
    if (own[core]) block(rank()).cores[core / 64].fetch_or(uint64_t{1} << core % 64);
  }
  block(rank()).presence.store(Presence::present);
}

void Members::watch_peers() {
  CoreSet cores;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank()) watched_[peer] = watch_process(block(peer).pid.load());
    for (size_t core = 0; core < cores.size(); ++core) {
      if ((block(peer).cores[core / 64].load() >> core % 64 & 1) != 0) cores.set(core);
    }
  }
  // A rank's own cores are not all: launchers such as mpirun bind each rank to some.
  spin_ = spin_policy(size(), available_cores(cores));
}

void Members::throw_if_failed() const {
  uint32_t state = control_.failed.load(std::memory_order_acquire);
  if (state == 0) return;
  // The text is being written right now, or its writer was killed.
  for (int tries = 0; state == 1 && tries < 100; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    state = control_.failed.load(std::memory_order_acquire);
  }
  if (state == 1) throw CommError(fmt::format("group \"{}\" has failed", group()));
  const std::string text(control_.failure, ::strnlen(control_.failure, kFailureBytes));
  // Recorded before this rank leaves, so that ranks of its other groups learn the cause.
  table_->fail(control_.culprit.load(), text);
  throw_failure(control_.culprit.load(), text);
}

void Members::fail(int culprit, const std::string& text) const {
  uint32_t none = 0;
  if (control_.failed.compare_exchange_strong(none, 1)) {
    const size_t length = std::min(text.size(), kFailureBytes - 1);
    std::memcpy(control_.failure, text.data(), length);
    control_.failure[length] = '\0';
    control_.culprit.store(culprit);
    control_.failed.store(2, std::memory_order_release);
    wake_all(control_.arrivals);
    for (int peer = 0; peer < size(); ++peer) wake_all(block(peer).doorbell);
  }
  throw_if_failed();
  throw_failure(culprit, text);
}

void Members::leave() {
  block(rank()).presence.store(Presence::left);
  wake_all(control_.arrivals);
  for (int peer = 0; peer < size(); ++peer) wake_all(block(peer).doorbell);
}

std::string Members::last_call(int rank) const {
  const RankBlock& peer = block(rank);
  const CallRecord& record = peer.calls[0].number > peer.calls[1].number ? peer.calls[0] : peer.calls[1];
  if (record.number == 0) return "it has made no call there yet";
  return fmt::format("its last call there, number {}: {}", record.number, describe(read_record(record)));
}

std::string Members::present_call(int rank) const {
  const RankBlock& peer = block(rank);
  const Blocked blocked = peer.blocked.load();
  if (blocked == Blocked::sending || blocked == Blocked::receiving) return describe(read_record(peer.message), axis_);
  return last_call(rank);
}

Members::Wait::Wait(Members& members, Blocked kind, int peer, const Call& call)
    : members_(members), kind_(kind), peer_(peer), call_(call), suspects_(members.size(), 0), sightings_(members.size(), 0) {
  RankBlock& own = members_.block(members_.rank());
  if (kind != Blocked::meeting) write_record(own.message, call, 0);
  own.blocked_on.store(peer);
  own.blocked.store(kind);
  own.blocked_serial.fetch_add(1);
}

Members::Wait::~Wait() {
  RankBlock& own = members_.block(members_.rank());
  own.blocked_serial.fetch_add(1);
  own.blocked.store(Blocked::no);
}

std::vector<int> Members::Wait::awaited() const {
  if (kind_ != Blocked::meeting) return {peer_};
  const uint32_t mine = members_.block(members_.rank()).arrivals.load();
  std::vector<int> ranks;
  for (int peer = 0; peer < members_.size(); ++peer) {
    // Compares modulo 2^32: a group may outlive a counter's range.
    if (static_cast<int32_t>(members_.block(peer).arrivals.load() - mine) < 0) ranks.push_back(peer);
  }
  return ranks;
}

void Members::Wait::check() {
  members_.throw_if_failed();
  if (members_.block(members_.rank()).presence.load() == Presence::left) throw CommError("this rank is leaving");
  const auto now = Clock::now();
  if (now - last_check_ < kCheckEvery) return;
  last_check_ = now;
  const std::vector<int> peers = awaited();
  show(peers);
  for (int peer : peers) check_peer(peer);
  if (now - start_ >= members_.timeout_) miss_deadline();
}

void Members::Wait::check_peer(int peer) {
  const RankBlock& block = members_.block(peer);
  const bool left = block.presence.load() == Presence::left, ended = has_ended(members_.watched_[peer]);
  if (left || ended) {
    // The peer may have finished its part before it went.
    const std::vector<int> still = awaited();
    if (kind_ == Blocked::meeting && std::find(still.begin(), still.end(), peer) == still.end()) return;
    report_lost(peer, left ? "has left the group" : fmt::format("its process {} died", block.pid.load()));
  }

  const uint32_t serial = block.blocked_serial.load();
  const bool contradicts = serial % 2 == 1 && waits_for_me(peer);
  sightings_[peer] = contradicts && suspects_[peer] == serial ? sightings_[peer] + 1 : 0;
  suspects_[peer] = serial;
  if (sightings_[peer] >= kSightings) {
    members_.fail(-1, fmt::format("ranks of group \"{}\" do not match: {} is in {} while {} is in {}", members_.group(),
                                  rank_name(members_.axis_, members_.rank()), describe(call_, members_.axis_),
                                  rank_name(members_.axis_, peer), members_.present_call(peer)));
  }
}

// A rank that ended with an error has recorded it in the table; that error takes precedence over its departure.
void Members::Wait::report_lost(int peer, const std::string& how) const {
  const Axis& axis = members_.axis_;
  const RankRow row = members_.table_->read(axis.ranks[peer]);
  if (row.state == RankState::failed) members_.fail(row.culprit, row.failure);
  members_.fail(axis.ranks[peer], fmt::format("{}: {}; waits: {} in {} for {}; {}", rank_name(axis, peer), how,
                                              rank_on_axis(axis.ranks[axis.index], axis.name, axis.ranks), describe(call_),
                                              axis.ranks[peer], members_.last_call(peer)));
}

void Members::Wait::show(const std::vector<int>& peers) {
  const RankRow row = wait_in(call_, members_.axis_, peers);
  if (shown_) {
    shown_->now_awaits(row.awaits);
  } else {
    shown_.emplace(members_.table_, row);
  }
}

// Returns whether the peer is blocked until this rank does something other than its current wait.
bool Members::Wait::waits_for_me(int peer) const {
  const RankBlock& block = members_.block(peer);
  switch (block.blocked.load()) {
    case Blocked::no:
      return false;
    case Blocked::meeting: {
      const uint32_t mine = members_.block(members_.rank()).arrivals.load();
      return kind_ != Blocked::meeting && static_cast<int32_t>(block.arrivals.load() - mine) > 0;
    }
    case Blocked::sending:
      // It continues if this rank receives.
      return block.blocked_on.load() == members_.rank() && kind_ != Blocked::receiving;
    case Blocked::receiving:
      return block.blocked_on.load() == members_.rank() && kind_ != Blocked::sending && members_.nothing_in_flight(peer);
  }
  return false;
}

void Members::Wait::miss_deadline() const {
  const std::vector<int> peers = awaited();
  const RankRow wait = wait_in(call_, members_.axis_, peers);
  const RankTable::Report report = members_.table_->report(wait, static_cast<double>(members_.timeout_.count()) / 1e3);
  std::string text = report.text;
  const auto& ranks = members_.axis_.ranks;
  const auto place = std::find(ranks.begin(), ranks.end(), report.culprit);
  if (place != ranks.end() && report.state != RankState::failed)
    text += fmt::format("; {}", members_.last_call(static_cast<int>(place - ranks.begin())));
  members_.fail(report.culprit, text);
}

}  // namespace weft::shm
