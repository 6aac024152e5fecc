#include "weft/comm/shm/members.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "weft/base/error.h"
#include "weft/comm/shm/wait.h"

namespace weft::shm {
namespace {

// A contradiction between two waits must be seen this often in a row, unchanged, before it counts: what is read of a peer
// is never of one instant.
constexpr int kSightings = 4;

}  // namespace

Members::Members(Control& control, std::string group, int rank, int size, std::chrono::milliseconds timeout)
    : control_(control), group_(std::move(group)), rank_(rank), size_(size), timeout_(timeout), watched_(size) {
  block(rank).pid.store(::getpid());
  block(rank).presence.store(Presence::present);
}

void Members::watch_peers() {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) watched_[peer] = watch_process(block(peer).pid.load());
  }
}

void Members::throw_if_failed() const {
  uint32_t state = control_.failed.load(std::memory_order_acquire);
  if (state == 0) return;
  // The text is being written at this moment, or its writer was killed at it.
  for (int tries = 0; state == 1 && tries < 100; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    state = control_.failed.load(std::memory_order_acquire);
  }
  if (state == 1) throw CommError(fmt::format("group \"{}\" has failed", group_));
  throw CommError(std::string(control_.failure, ::strnlen(control_.failure, kFailureBytes)));
}

void Members::fail(const std::string& text) const {
  uint32_t none = 0;
  if (control_.failed.compare_exchange_strong(none, 1)) {
    const size_t length = std::min(text.size(), kFailureBytes - 1);
    std::memcpy(control_.failure, text.data(), length);
    control_.failure[length] = '\0';
    control_.failed.store(2, std::memory_order_release);
    wake_all(control_.arrivals);
    for (int peer = 0; peer < size_; ++peer) wake_all(block(peer).doorbell);
  }
  throw_if_failed();
  throw CommError(text);
}

void Members::leave() {
  block(rank_).presence.store(Presence::left);
  wake_all(control_.arrivals);
  for (int peer = 0; peer < size_; ++peer) wake_all(block(peer).doorbell);
}

std::string Members::last_call(int rank) const {
  const RankBlock& peer = block(rank);
  const CallRecord& record = peer.calls[0].number > peer.calls[1].number ? peer.calls[0] : peer.calls[1];
  if (record.number == 0) return "no call yet";
  return fmt::format("last call number {}, {}", record.number, describe(read_record(record)));
}

std::string Members::present_call(int rank) const {
  const RankBlock& peer = block(rank);
  const Blocked blocked = peer.blocked.load();
  if (blocked == Blocked::sending || blocked == Blocked::receiving) return describe(read_record(peer.message));
  return last_call(rank);
}

Members::Wait::Wait(Members& members, Blocked kind, int peer, const Call& call)
    : members_(members), kind_(kind), peer_(peer), call_(call), suspects_(members.size_, 0), sightings_(members.size_, 0) {
  RankBlock& own = members_.block(members_.rank_);
  if (kind != Blocked::meeting) write_record(own.message, call, 0);
  own.blocked_on.store(peer);
  own.blocked.store(kind);
  own.blocked_serial.fetch_add(1);
}

Members::Wait::~Wait() {
  RankBlock& own = members_.block(members_.rank_);
  own.blocked_serial.fetch_add(1);
  own.blocked.store(Blocked::no);
}

std::vector<int> Members::Wait::awaited() const {
  if (kind_ != Blocked::meeting) return {peer_};
  const uint32_t mine = members_.block(members_.rank_).arrivals.load();
  std::vector<int> ranks;
  for (int peer = 0; peer < members_.size_; ++peer) {
    // Modulo 2^32: a group may live for more meetings than a word counts.
    if (static_cast<int32_t>(members_.block(peer).arrivals.load() - mine) < 0) ranks.push_back(peer);
  }
  return ranks;
}

void Members::Wait::check() {
  members_.throw_if_failed();
  const auto now = Clock::now();
  if (now - last_check_ < kCheckEvery) return;
  last_check_ = now;
  for (int peer : awaited()) check_peer(peer);
  if (now - start_ >= members_.timeout_) miss_deadline();
}

void Members::Wait::check_peer(int peer) {
  const RankBlock& block = members_.block(peer);
  const auto gone = [&](const std::string& how) {
    // It may have finished its part before it went.
    const std::vector<int> still = awaited();
    if (kind_ == Blocked::meeting && std::find(still.begin(), still.end(), peer) == still.end()) return;
    members_.fail(fmt::format("rank {} of group \"{}\" {} while rank {} was in {}; {}", peer, members_.group_, how,
                              members_.rank_, describe(call_), members_.last_call(peer)));
  };
  if (block.presence.load() == Presence::left) gone("has left the group");
  if (has_ended(members_.watched_[peer])) gone(fmt::format("(process {}) died", block.pid.load()));

  const uint32_t serial = block.blocked_serial.load();
  const bool contradicts = serial % 2 == 1 && waits_for_me(peer);
  sightings_[peer] = contradicts && suspects_[peer] == serial ? sightings_[peer] + 1 : 0;
  suspects_[peer] = serial;
  if (sightings_[peer] >= kSightings) {
    members_.fail(fmt::format("ranks of group \"{}\" do not match: rank {} is in {} while rank {} is in {}", members_.group_,
                              members_.rank_, describe(call_), peer, members_.present_call(peer)));
  }
}

// Whether the peer, blocked itself, cannot go on before this rank does something else than what it waits in.
bool Members::Wait::waits_for_me(int peer) const {
  const RankBlock& block = members_.block(peer);
  switch (block.blocked.load()) {
    case Blocked::no:
      return false;
    case Blocked::meeting: {
      const uint32_t mine = members_.block(members_.rank_).arrivals.load();
      return kind_ != Blocked::meeting && static_cast<int32_t>(block.arrivals.load() - mine) > 0;
    }
    case Blocked::sending:
      // Receiving would be what it needs.
      return block.blocked_on.load() == members_.rank_ && kind_ != Blocked::receiving;
    case Blocked::receiving:
      return block.blocked_on.load() == members_.rank_ && kind_ != Blocked::sending && members_.nothing_on_its_way(peer);
  }
  return false;
}

void Members::Wait::miss_deadline() const {
  std::vector<std::string> missing;
  for (int peer : awaited()) missing.push_back(fmt::format("rank {} ({})", peer, members_.present_call(peer)));
  members_.fail(fmt::format("rank {} of group \"{}\" waited {:.1f} s in {} for {}: its deadline has passed", members_.rank_,
                            members_.group_, members_.timeout_.count() / 1000.0, describe(call_), fmt::join(missing, ", ")));
}

}  // namespace weft::shm
