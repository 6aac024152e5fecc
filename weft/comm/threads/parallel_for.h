// parallel_for: splits work among LibTorch's compute threads (at::set_num_threads, OMP_NUM_THREADS), so no other thread pool is
// needed.
//
// at::parallel_for uses threads only in code compiled with OpenMP, which weft is not: it would run everything on the caller.
#pragma once

#include <c10/util/FunctionRef.h>

#include <algorithm>
#include <cstdint>

namespace weft {

/// Returns the number of pieces, of `elements_each` elements each, that justifies a thread: some microseconds of work.
constexpr int64_t pieces_worth_a_thread(int64_t elements_each) {
  return std::max<int64_t>(1, (1 << 13) / std::max<int64_t>(1, elements_each));
}

/// Returns the number of threads available for large enough work: 1 inside work that is already split, and in a thread that
/// called use_single_thread().
int64_t available_threads();
/// Returns how many of these threads parallel_for() would use.
int64_t threads_for(int64_t count, int64_t grain);

/// Calls work(begin, end) for ranges that cover [0, count), one range per thread; ranges begin at multiples of `grain`, the
/// smallest range that justifies a thread. Results must not depend on where a range begins. Rethrows exceptions of `work`.
void parallel_for(int64_t count, int64_t grain, c10::function_ref<void(int64_t begin, int64_t end)> work);

/// From now on, uses no other threads for this thread's work, including LibTorch's operators. For helper threads of a rank,
/// each of which would otherwise get a thread pool of its own.
void use_single_thread();

}  // namespace weft
