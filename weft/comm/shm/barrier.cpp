#include "weft/comm/shm/barrier.h"

#include "weft/comm/shm/wait.h"

namespace weft::shm {

Barrier::Barrier(Members& members) : members_(members) {}

CallRecord& Barrier::open(const Call& call) {
  members_.throw_if_failed();
  ++number_;
  CallRecord& own = members_.block(members_.rank()).calls[number_ % 2];
  write_record(own, call, number_);
  return own;
}

void Barrier::begin(const Call& call) {
  meet(call);
  compare(call);
}

void Barrier::meet(const Call& call) {
  Control& control = members_.control();
  const uint32_t target = ++arrivals_ * static_cast<uint32_t>(members_.size());
  members_.block(members_.rank()).arrivals.store(arrivals_, std::memory_order_release);
  // Sequentially consistent with the sleeper's count below: one of the two sees the other.
  if (control.arrivals.fetch_add(1) + 1 == target) {
    if (control.asleep.load() != 0) wake_all(control.arrivals);
    return;
  }
  const auto complete = [&] { return static_cast<int32_t>(control.arrivals.load(std::memory_order_acquire) - target) >= 0; };
  if (look_for(members_.spin(), complete)) return;
  sleep(target, call);
}

void Barrier::sleep(uint32_t target, const Call& call) {
  Control& control = members_.control();
  Members::Wait wait(members_, Blocked::meeting, -1, call);
  while (true) {
    const bool pushing = members_.push_pending();
    control.asleep.fetch_add(1);
    const uint32_t seen = control.arrivals.load();
    const bool complete = static_cast<int32_t>(seen - target) >= 0;
    if (!complete) sleep_on(control.arrivals, seen, pushing ? std::chrono::milliseconds(1) : kCheckEvery);
    control.asleep.fetch_sub(1);
    if (complete) return;
    wait.check();
  }
}

// All ranks hold the same records here, so all of them name the same pair.
void Barrier::compare(const Call& call) const {
  const CallRecord& first = record(0);
  for (int rank = 1; rank < members_.size(); ++rank) {
    const CallRecord& other = record(rank);
    if (!match(first, other)) members_.fail(-1, describe_mismatch(members_.axis(), 0, first, rank, other));
  }
}

}  // namespace weft::shm
