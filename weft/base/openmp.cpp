#include "weft/base/openmp.h"

#include <dlfcn.h>

namespace weft {

// Found where LibTorch has loaded it: weft itself is not compiled for OpenMP.
void set_openmp_threads(int threads) {
  static const auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set) set(threads);
}

}  // namespace weft
