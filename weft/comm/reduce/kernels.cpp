// The Highway kernels of reduce.h. Highway includes this file once per instruction set and picks one at run time. Kernels avoid
// the standard library and lambdas: code compiled for one set must not end up in code meant for another.
#include "weft/comm/reduce/kernels.h"

#define HWY_DISABLED_TARGETS HWY_SSSE3  // processors older than SSE4
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/comm/reduce/kernels.cpp"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "weft/base/float_formats_inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {
namespace {

// --- operations --------------------------------------------------------------------------------------------------------------

struct Sum {
  template <class D>
  static HWY_INLINE hn::Vec<D> apply(D, hn::Vec<D> a, hn::Vec<D> b) {
    return hn::Add(a, b);
  }
};

// hn::Max and hn::Min of floats treat NaN differently per processor. Uses IsNaN, because Ne(a, a) is false for NaN with AVX.
struct Max {
  template <class D>
  static HWY_INLINE hn::Vec<D> apply(D, hn::Vec<D> a, hn::Vec<D> b) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
    } else {
      return hn::Max(a, b);
    }
  }
};

struct Min {
  template <class D>
  static HWY_INLINE hn::Vec<D> apply(D, hn::Vec<D> a, hn::Vec<D> b) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
    } else {
      return hn::Min(a, b);
    }
  }
};

// Never called: used with a single source.
struct None {};

// --- the tree ----------------------------------------------------------------------------------------------------------

// tree(Low, Low + N) of one vector; N is a power of two.
template <class Format, class Op, int Low, int N, class D>
HWY_INLINE hn::Vec<D> tree_of(D d, const typename Format::Stored* const* sources, int64_t k) {
  if constexpr (N == 1) {
    return Format::load(d, sources[Low] + k);
  } else {
    return Op::apply(d, tree_of<Format, Op, Low, N / 2>(d, sources, k), tree_of<Format, Op, Low + N / 2, N / 2>(d, sources, k));
  }
}

// outputs[i][k] = tree(0, N) over sources[][begin + k], written as OutFormat.
template <class Format, class Op, int N, class OutFormat, int M>
void few(typename OutFormat::Stored* const (&outputs)[M], const void* const* sources, int64_t begin, int64_t count) {
  const typename Format::Stored* in[N];
  for (int i = 0; i < N; ++i) in[i] = static_cast<const typename Format::Stored*>(sources[i]) + begin;
  typename OutFormat::Stored* out[M];
  for (int i = 0; i < M; ++i) out[i] = outputs[i];
  const hn::ScalableTag<typename Format::Wide> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t k = 0;
  HWY_UNROLL(2)
  for (; k + lanes <= count; k += lanes) {
    const auto value = tree_of<Format, Op, 0, N>(d, in, k);
    for (int i = 0; i < M; ++i) OutFormat::store(d, value, out[i] + k);
  }
  const hn::CappedTag<typename Format::Wide, 1> one;
  for (; k < count; ++k) {
    const auto value = tree_of<Format, Op, 0, N>(one, in, k);
    for (int i = 0; i < M; ++i) OutFormat::store(one, value, out[i] + k);
  }
}

// True if elements are combined as they are loaded; false if a block is first loaded into scratch memory. Clang 16 would not
// vectorise comparisons of float16 widened on load.
template <class Format, class Op>
inline constexpr bool kFused = sizeof(typename Format::Stored) == sizeof(typename Format::Wide) || hwy::IsSame<Op, Sum>();

constexpr int64_t kBlock = 512;  // elements; a block and its partial sums stay in the first-level cache

// Leaves tree(low, high) of one block in scratch[0, kBlock); the rest of scratch serves the levels below.
template <class Format, class Op>
void tree(typename Format::Wide* scratch, const void* const* sources, int low, int high, int64_t begin, int64_t count) {
  using Wide = Plain<typename Format::Wide>;
  typename Format::Wide* const leaf[] = {scratch};
  if (high - low == 1) return few<Format, None, 1, Wide>(leaf, sources + low, begin, count);
  if constexpr (kFused<Format, Op>) {
    if (high - low == 2) return few<Format, Op, 2, Wide>(leaf, sources + low, begin, count);
    if (high - low == 4) return few<Format, Op, 4, Wide>(leaf, sources + low, begin, count);
  }
  int half = 1;
  while (half * 2 < high - low) half *= 2;
  tree<Format, Op>(scratch, sources, low, low + half, begin, count);
  tree<Format, Op>(scratch + kBlock, sources, low + half, high, begin, count);
  const void* const halves[] = {scratch, scratch + kBlock};
  few<Wide, Op, 2, Wide>(leaf, halves, 0, count);
}

template <class Format, class Op>
void reduce(void* const* outputs, int num_outputs, const void* const* sources, int num_sources, int64_t numel) {
  using Stored = typename Format::Stored;
  using Wide = typename Format::Wide;
  // Two sources are the common case and need no scratch.
  if constexpr (kFused<Format, Op>) {
    if (num_sources == 2 && num_outputs == 1) {
      Stored* const out[] = {static_cast<Stored*>(outputs[0])};
      return few<Format, Op, 2, Format>(out, sources, 0, numel);
    }
    if (num_sources == 2 && num_outputs == 2) {
      Stored* const out[] = {static_cast<Stored*>(outputs[0]), static_cast<Stored*>(outputs[1])};
      return few<Format, Op, 2, Format>(out, sources, 0, numel);
    }
  }
  // Enough levels for 2^16 ranks; only those in use are touched.
  alignas(64) Wide scratch[17 * kBlock];
  const void* const result[] = {scratch};
  for (int64_t begin = 0; begin < numel; begin += kBlock) {
    const int64_t count = numel - begin < kBlock ? numel - begin : kBlock;
    tree<Format, Op>(scratch, sources, 0, num_sources, begin, count);
    for (int i = 0; i < num_outputs; ++i) {
      Stored* const out[] = {static_cast<Stored*>(outputs[i]) + begin};
      few<Plain<Wide>, None, 1, Format>(out, result, 0, count);
    }
  }
}

template <class Op>
TreeKernel pick(at::ScalarType dtype) {
  switch (dtype) {
    case at::ScalarType::Float:
      return reduce<Plain<float>, Op>;
    case at::ScalarType::Double:
      return reduce<Plain<double>, Op>;
    case at::ScalarType::Long:
      return reduce<Plain<int64_t>, Op>;
    case at::ScalarType::Int:
      return reduce<Plain<int32_t>, Op>;
    case at::ScalarType::BFloat16:
      return reduce<Brain, Op>;
    case at::ScalarType::Half:
      return reduce<Half, Op>;
    default:
      return nullptr;
  }
}

TreeKernel pick_kernel(TreeReduction kind) {
  switch (kind.op) {
    case ReduceOp::sum:
      return pick<Sum>(kind.dtype);
    case ReduceOp::max:
      return pick<Max>(kind.dtype);
    case ReduceOp::min:
      return pick<Min>(kind.dtype);
  }
  return nullptr;
}

}  // namespace
}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {
namespace {
HWY_EXPORT(pick_kernel);
}  // namespace

TreeKernel tree_kernel(TreeReduction kind) { return HWY_DYNAMIC_DISPATCH(pick_kernel)(kind); }

std::vector<int64_t> tree_kernel_targets() { return hwy::SupportedAndGeneratedTargets(); }

}  // namespace weft
#endif
