#include "weft/nn/kernels/channel_kernels.h"

#include "weft/nn/kernels/instruction_sets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/nn/kernels/channel_kernels.cpp"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "weft/base/float_formats_inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class Format>
HWY_INLINE typename Format::Stored* at_place(void* base, int64_t place) {
  return base ? static_cast<typename Format::Stored*>(base) + place : nullptr;
}
template <class Format>
HWY_INLINE const typename Format::Stored* at_place(const void* base, int64_t place) {
  return base ? static_cast<const typename Format::Stored*>(base) + place : nullptr;
}

// dy, or zero where y is zero; advances y to the next row.
template <class Format, class D>
HWY_INLINE hn::Vec<D> masked(D d, const typename Format::Stored* dy, const typename Format::Stored*& y, int64_t channels) {
  const auto g = Format::load(d, dy);
  if (!y) return g;
  const auto value = Format::load(d, y);
  y += channels;
  return hn::IfThenZeroElse(hn::Le(value, hn::Zero(d)), g);
}

// Each pass takes one vector of channels, row by row. Passes that sum in float64 use as many lanes as a float64 vector has.
template <class Format>
struct Sums {
  using Tag = hn::Rebind<float, hn::ScalableTag<double>>;
  template <class D>
  static HWY_INLINE void apply(D d, const ChannelRows& r, int64_t channel) {
    const hn::Rebind<double, D> wide;
    auto first = hn::Zero(wide), second = hn::Zero(wide);
    const auto* x = at_place<Format>(r.x, r.begin * r.channels + channel);
    for (int64_t row = r.begin; row < r.end; ++row, x += r.channels) {
      const auto value = hn::PromoteTo(wide, Format::load(d, x));
      first = hn::Add(first, value);
      second = hn::Add(second, hn::Mul(value, value));
    }
    hn::StoreU(first, wide, r.first + channel);
    hn::StoreU(second, wide, r.second + channel);
  }
};

template <class Format>
struct Scale {
  using Tag = hn::ScalableTag<float>;
  template <class D>
  static HWY_INLINE void apply(D d, const ChannelRows& r, int64_t channel) {
    const auto factor = hn::LoadU(d, r.scale + channel), offset = hn::LoadU(d, r.offset + channel);
    const int64_t place = r.begin * r.channels + channel;
    const auto *x = at_place<Format>(r.x, place), *added = at_place<Format>(r.added, place);
    auto* out = at_place<Format>(r.out, place);
    for (int64_t row = r.begin; row < r.end; ++row, x += r.channels, out += r.channels) {
      auto value = hn::Add(hn::Mul(Format::load(d, x), factor), offset);
      if (added) {
        value = hn::Add(value, Format::load(d, added));
        added += r.channels;
      }
      if (r.relu) value = hn::IfThenZeroElse(hn::Lt(value, hn::Zero(d)), value);
      Format::store(d, value, out);
    }
  }
};

template <class Format>
struct GradientSums {
  using Tag = hn::Rebind<float, hn::ScalableTag<double>>;
  template <class D>
  static HWY_INLINE void apply(D d, const ChannelRows& r, int64_t channel) {
    const hn::Rebind<double, D> wide;
    auto first = hn::Zero(wide), second = hn::Zero(wide);
    const auto mean = hn::LoadU(d, r.mean + channel);
    const int64_t place = r.begin * r.channels + channel;
    const auto *x = at_place<Format>(r.x, place), *dy = at_place<Format>(r.dy, place), *y = at_place<Format>(r.y, place);
    auto* out = at_place<Format>(r.out, place);
    for (int64_t row = r.begin; row < r.end; ++row, x += r.channels, dy += r.channels) {
      const auto g = masked<Format>(d, dy, y, r.channels);
      if (out) {
        Format::store(d, g, out);
        out += r.channels;
      }
      const auto centred = hn::PromoteTo(wide, hn::Sub(Format::load(d, x), mean)), of_g = hn::PromoteTo(wide, g);
      first = hn::Add(first, of_g);
      second = hn::Add(second, hn::Mul(of_g, centred));
    }
    hn::StoreU(first, wide, r.first + channel);
    hn::StoreU(second, wide, r.second + channel);
  }
};

template <class Format>
struct Gradient {
  using Tag = hn::ScalableTag<float>;
  template <class D>
  static HWY_INLINE void apply(D d, const ChannelRows& r, int64_t channel) {
    const auto mean = hn::LoadU(d, r.mean + channel), factor = hn::LoadU(d, r.scale + channel);
    const auto slope = hn::LoadU(d, r.slope + channel), offset = hn::LoadU(d, r.offset + channel);
    const int64_t place = r.begin * r.channels + channel;
    const auto *x = at_place<Format>(r.x, place), *dy = at_place<Format>(r.dy, place), *y = at_place<Format>(r.y, place);
    auto* out = at_place<Format>(r.out, place);
    for (int64_t row = r.begin; row < r.end; ++row, x += r.channels, dy += r.channels, out += r.channels) {
      const auto g = masked<Format>(d, dy, y, r.channels);
      const auto of_x = hn::Add(hn::Mul(hn::Sub(Format::load(d, x), mean), slope), offset);
      Format::store(d, hn::Add(hn::Mul(g, factor), of_x), out);
    }
  }
};

// Channels from `channel`, in vectors of that tag, then of half its size, down to one.
template <class Pass, class D>
HWY_INLINE void in_channels(D d, const ChannelRows& rows, int64_t channel) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; channel + lanes <= rows.channels; channel += lanes) Pass::apply(d, rows, channel);
  if constexpr (hn::MaxLanes(D()) > 1) {
    if (channel < rows.channels) in_channels<Pass>(hn::Half<D>(), rows, channel);
  }
}

template <template <class> class Pass>
HWY_INLINE void run(Element element, const ChannelRows& rows) {
  element == Element::float32 ? in_channels<Pass<Plain<float>>>(typename Pass<Plain<float>>::Tag(), rows, 0)
                              : in_channels<Pass<Brain>>(typename Pass<Brain>::Tag(), rows, 0);
}

void sums(Element element, const ChannelRows& rows) { run<Sums>(element, rows); }
void scale(Element element, const ChannelRows& rows) { run<Scale>(element, rows); }
void gradient_sums(Element element, const ChannelRows& rows) { run<GradientSums>(element, rows); }
void gradient(Element element, const ChannelRows& rows) { run<Gradient>(element, rows); }

}  // namespace
}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {
namespace {
HWY_EXPORT(sums);
HWY_EXPORT(scale);
HWY_EXPORT(gradient_sums);
HWY_EXPORT(gradient);
}  // namespace

void channel_sums_rows(Element element, const ChannelRows& rows) { HWY_DYNAMIC_DISPATCH(sums)(element, rows); }
void scale_channels_rows(Element element, const ChannelRows& rows) { HWY_DYNAMIC_DISPATCH(scale)(element, rows); }
void channel_gradient_sums_rows(Element element, const ChannelRows& rows) {
  HWY_DYNAMIC_DISPATCH(gradient_sums)(element, rows);
}
void channel_gradient_rows(Element element, const ChannelRows& rows) { HWY_DYNAMIC_DISPATCH(gradient)(element, rows); }

}  // namespace weft
#endif
