// Element types for Highway kernels: the memory format and the type used for arithmetic. A kernel's source includes this once
// per instruction set (hwy/foreach_target.h), after hwy/highway.h.
//
// A format has load(d, from) and store(d, value, to) for full and partial vectors, where d is a tag of its Wide type, and,
// except for Half, rounded(d, value): the value after a store and a load.
#if defined(WEFT_BASE_FLOAT_FORMATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_BASE_FLOAT_FORMATS_INL_H_
#undef WEFT_BASE_FLOAT_FORMATS_INL_H_
#else
#define WEFT_BASE_FLOAT_FORMATS_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct Plain {
  using Stored = T;
  using Wide = T;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const T* in) {
    return hn::LoadU(d, in);
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> value, T* out) {
    hn::StoreU(value, d, out);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> rounded(D, hn::Vec<D> value) {
    return value;
  }
};

// Converts between a float and a 16-bit one in the low half of each lane.
struct BrainBits {
  template <class D, class U>
  static HWY_INLINE hn::Vec<D> widen(D d, U bits) {
    return hn::BitCast(d, hn::ShiftLeft<16>(bits));
  }
  template <class D>
  static HWY_INLINE auto narrow(D d, hn::Vec<D> value) {
    const hn::RebindToUnsigned<D> u;
    const auto bits = hn::BitCast(u, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(u, 0x7fff)));  // to nearest, ties to even
    const auto nan = hn::RebindMask(u, hn::IsNaN(value));
    return hn::ShiftRight<16>(hn::IfThenElse(nan, hn::Set(u, 0x7fc00000), rounded));
  }
};

// float16 by arithmetic, for instruction sets without float16 conversions; bit-identical to those of other sets.
struct HalfBits {
  template <class D, class U>
  static HWY_INLINE hn::Vec<D> widen(D d, U bits) {
    const hn::RebindToUnsigned<D> u;
    const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(u, 0x7fff)));
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(u, 0x8000)));
    const auto finite = hn::BitCast(u, hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112f)));
    const auto quiet = hn::IfThenElse(hn::Gt(magnitude, hn::Set(u, 0x0f800000)), hn::Set(u, 0x00400000), hn::Zero(u));
    const auto special = hn::Or(magnitude, hn::Or(quiet, hn::Set(u, 0x7f800000)));
    return hn::BitCast(d, hn::Or(sign, hn::IfThenElse(hn::Lt(magnitude, hn::Set(u, 0x0f800000)), finite, special)));
  }
  template <class D>
  static HWY_INLINE auto narrow(D d, hn::Vec<D> value) {
    const hn::RebindToUnsigned<D> u;
    const auto bits = hn::BitCast(u, value);
    const auto magnitude = hn::And(bits, hn::Set(u, 0x7fffffff));
    const auto sign = hn::ShiftRight<16>(hn::Xor(bits, magnitude));
    // Adding 0.5 leaves the bits of a subnormal float16, rounded to nearest, at the end of the mantissa.
    const auto half = hn::Set(d, 0.5f);
    const auto subnormal = hn::Sub(hn::BitCast(u, hn::Add(hn::BitCast(d, magnitude), half)), hn::BitCast(u, half));
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(u, 1));
    const auto normal = hn::ShiftRight<13>(hn::Add(magnitude, hn::Add(odd, hn::Set(u, 0xc8000fff))));
    const auto nan = hn::Or(hn::Set(u, 0x7e00), hn::And(hn::ShiftRight<13>(magnitude), hn::Set(u, 0x3ff)));
    auto result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(u, 0x38800000)), subnormal, normal);
    result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(u, 0x477fefff)), hn::Set(u, 0x7c00), result);  // rounds to infinity
    result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(u, 0x7f800000)), nan, result);
    return hn::Or(sign, result);
  }
};

template <class Bits>
struct Narrow {
  using Stored = uint16_t;
  using Wide = float;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const uint16_t* in) {
    const hn::Rebind<uint16_t, D> stored;
    return Bits::widen(d, hn::PromoteTo(hn::RebindToUnsigned<D>(), hn::LoadU(stored, in)));
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> value, uint16_t* out) {
    const hn::Rebind<uint16_t, D> stored;
    hn::StoreU(hn::TruncateTo(stored, Bits::narrow(d, value)), stored, out);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> rounded(D d, hn::Vec<D> value) {
    return Bits::widen(d, Bits::narrow(d, value));
  }
};

using Brain = Narrow<BrainBits>;

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_SSE4
using Half = Narrow<HalfBits>;
#else
struct Half {
  using Stored = uint16_t;
  using Wide = float;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const uint16_t* in) {
    const hn::Rebind<uint16_t, D> stored;
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), hn::LoadU(stored, in)));
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> value, uint16_t* out) {
    const hn::Rebind<uint16_t, D> stored;
    hn::StoreU(hn::BitCast(stored, hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), value)), stored, out);
  }
};
#endif

}  // namespace
}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
