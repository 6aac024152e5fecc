// Number of OpenMP threads per parallel region.
#pragma once

namespace weft {

/// Sets the threads per parallel region started by the calling thread, and only by it; does nothing without OpenMP.
void set_openmp_threads(int threads);

}  // namespace weft
