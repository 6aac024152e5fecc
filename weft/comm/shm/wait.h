// Waiting on a word in shared memory: a short spin, then a futex. Costs no system call on either side while the wait is short.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace weft::shm {

/// Sleeps until the word differs from `seen`, wake_all() is called, or `longest` has passed; may wake early.
void sleep_on(std::atomic<uint32_t>& word, uint32_t seen, std::chrono::milliseconds longest);
void wake_all(std::atomic<uint32_t>& word);

/// How long to spin before sleeping.
struct SpinPolicy {
  int looks = 0;   ///< checks with a CPU pause after each
  int yields = 0;  ///< further checks, with the core yielded after each, perhaps to a peer
};

/// Returns the policy for `ranks` with so many cores together: longer spinning if every rank has its own core, shorter if they
/// share.
SpinPolicy spin_policy(int ranks, int cores);

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void yield_core();

/// Returns whether `ready()` became true before the checks ran out.
template <class Ready>
bool look_for(SpinPolicy spin, const Ready& ready) {
  for (int look = 0; look < spin.looks; ++look) {
    if (ready()) return true;
    pause_cpu();
  }
  for (int yield = 0; yield < spin.yields; ++yield) {
    if (ready()) return true;
    yield_core();
  }
  return false;
}

}  // namespace weft::shm
