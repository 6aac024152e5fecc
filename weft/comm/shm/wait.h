// Waiting on a word in shared memory: a short spin, then a futex. Costs no system call on either side while the wait is short.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace weft::shm {

/// Sleeps until the word is no longer `seen`, is woken, or `longest` has passed; may wake early.
void sleep_on(std::atomic<uint32_t>& word, uint32_t seen, std::chrono::milliseconds longest);
void wake_all(std::atomic<uint32_t>& word);

/// How often to look before sleeping: long where every rank has a core of its own, short where they share.
int spins_before_sleep(int ranks_on_host);

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace weft::shm
