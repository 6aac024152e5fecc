#include "weft/comm/shm/wait.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace weft::shm {

// The kernel reads the atomic's memory as a plain 32-bit word.
static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free);

void sleep_on(std::atomic<uint32_t>& word, uint32_t seen, std::chrono::milliseconds longest) {
  timespec limit{longest.count() / 1000, (longest.count() % 1000) * 1000000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

void wake_all(std::atomic<uint32_t>& word) { ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

SpinPolicy spin_policy(int ranks, int cores) {
  return ranks <= cores ? SpinPolicy{.looks = 400, .yields = 40} : SpinPolicy{.looks = 20, .yields = 2};
}

void yield_core() { ::sched_yield(); }

}  // namespace weft::shm
