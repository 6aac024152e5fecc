// parallel_for: shares work among the threads that LibTorch computes with (at::set_num_threads, OMP_NUM_THREADS), so that
// nothing has threads of its own beside those.
//
// LibTorch's own at::parallel_for uses threads only in what is compiled for OpenMP, which weft is not: it would run everything
// on the caller's.
#pragma once

#include <c10/util/FunctionRef.h>

#include <algorithm>
#include <cstdint>

namespace weft {

/// Pieces of so many elements each that are worth a thread: some microseconds' work.
constexpr int64_t pieces_worth_a_thread(int64_t elements_each) {
  return std::max<int64_t>(1, (1 << 13) / std::max<int64_t>(1, elements_each));
}

/// How many threads there are for work that is large enough: one within work that is shared already, and in a thread that
/// computes alone.
int64_t threads_here();
/// How many of them parallel_for() would use.
int64_t threads_for(int64_t count, int64_t grain);

/// Calls work(begin, end) for ranges that make up [0, count), one range a thread; they begin at multiples of `grain`, which is
/// the least that is worth a thread. What a range computes must not depend on where it begins. Throws what a call throws.
void parallel_for(int64_t count, int64_t grain, c10::function_ref<void(int64_t begin, int64_t end)> work);

/// From here on what this thread computes, LibTorch's operators too, it computes by itself: for threads beside the one that
/// trains, each of which would otherwise have a pool of as many threads of its own.
void compute_alone();

}  // namespace weft
