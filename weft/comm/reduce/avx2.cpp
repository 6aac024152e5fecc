#include "weft/comm/reduce/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace weft {
#pragma GCC push_options
#pragma GCC optimize("O3")
#pragma GCC target("avx2,f16c")
namespace {

void load_half(float* out, const uint16_t* in, int64_t count) {
  int64_t k = 0;
  for (; k + 8 <= count; k += 8) {
    _mm256_storeu_ps(out + k, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + k))));
  }
  for (; k < count; ++k) out[k] = _cvtsh_ss(in[k]);
}

void store_half(uint16_t* out, const float* in, int64_t count) {
  int64_t k = 0;
  for (; k + 8 <= count; k += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + k), _mm256_cvtps_ph(_mm256_loadu_ps(in + k), _MM_FROUND_TO_NEAREST_INT));
  }
  for (; k < count; ++k) out[k] = _cvtss_sh(in[k], _MM_FROUND_TO_NEAREST_INT);
}

#include "weft/comm/reduce/kernels.inc"

}  // namespace
#pragma GCC pop_options

TreeKernel tree_kernel_avx2(TreeReduction kind) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") ? pick(kind) : nullptr;
}

}  // namespace weft
#else
namespace weft {
TreeKernel tree_kernel_avx2(TreeReduction) { return nullptr; }
}  // namespace weft
#endif
