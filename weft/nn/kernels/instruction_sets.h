// Instruction sets that Highway kernels are compiled for, in addition to the baseline of each architecture: AVX2 and AVX-512,
// or ARM's NEON (not SVE, whose vectors have no compile-time length and so cannot be in arrays). Include it before Highway.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
