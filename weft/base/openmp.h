// How many threads OpenMP gives to what the calling thread computes.
#pragma once

namespace weft {

/// Of regions that this thread begins, and no other does; nothing where the process has no OpenMP.
void set_openmp_threads(int threads);

}  // namespace weft
