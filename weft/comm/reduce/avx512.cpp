#include "weft/comm/reduce/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace weft {
// The compiler's own intrinsics read a register that they then mask out.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC push_options
#pragma GCC optimize("O3")
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,f16c,prefer-vector-width=512")
namespace {

void load_half(float* out, const uint16_t* in, int64_t count) {
  int64_t k = 0;
  for (; k + 16 <= count; k += 16) {
    _mm512_storeu_ps(out + k, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + k))));
  }
  for (; k < count; ++k) out[k] = _cvtsh_ss(in[k]);
}

void store_half(uint16_t* out, const float* in, int64_t count) {
  int64_t k = 0;
  for (; k + 16 <= count; k += 16) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + k),
                        _mm512_cvtps_ph(_mm512_loadu_ps(in + k), _MM_FROUND_TO_NEAREST_INT));
  }
  for (; k < count; ++k) out[k] = _cvtss_sh(in[k], _MM_FROUND_TO_NEAREST_INT);
}

#include "weft/comm/reduce/kernels.inc"

}  // namespace
#pragma GCC pop_options

TreeKernel tree_kernel_avx512(TreeReduction kind) {
  const bool supported = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return supported ? pick(kind) : nullptr;
}

}  // namespace weft
#else
namespace weft {
TreeKernel tree_kernel_avx512(TreeReduction) { return nullptr; }
}  // namespace weft
#endif
