#include "weft/base/openmp.h"

#include <dlfcn.h>

namespace weft {

// Looked up at run time because weft is not compiled with OpenMP: LibTorch loads the library.
void set_openmp_threads(int threads) {
  static const auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set) set(threads);
}

}  // namespace weft
