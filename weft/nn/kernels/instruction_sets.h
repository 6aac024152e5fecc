// The instruction sets that kernels in Highway are made for beside the one that all processors of a kind have: AVX2 and
// AVX-512, or ARM's NEON (of vectors whose length is not known when they are compiled there can be no arrays). Included before
// Highway.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
