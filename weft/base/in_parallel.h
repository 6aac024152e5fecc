// in_parallel: independent calls on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace weft {

/// Calls work(i) for each i in [0, count), on up to `threads` threads, the caller's among them, fewer where the system gives no
/// more; returns once all have ended. Rethrows the error of the first i that failed.
void in_parallel(size_t count, size_t threads, const std::function<void(size_t)>& work);

}  // namespace weft
