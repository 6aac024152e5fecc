// channel_kernels: what normalising channels does to every pixel, one pass over memory each. Pixels lie as rows of `channels`
// columns; sums are made in float64, one row after another.
#pragma once

#include <cstdint>

#include "weft/nn/kernels/element.h"

namespace weft {

/// Some rows (pixels) of matrices of `channels` columns. g below is dy, or zero where a ReLU's output `y` is zero; y null:
/// there was none. Tensors that a pass does not need are null.
struct ChannelRows {
  const void *x = nullptr, *dy = nullptr, *y = nullptr, *added = nullptr;              ///< [.., channels] of the element's type
  void* out = nullptr;                                                                 ///< like x
  const float *mean = nullptr, *scale = nullptr, *slope = nullptr, *offset = nullptr;  ///< [channels]
  double *first = nullptr, *second = nullptr;                                          ///< [channels], written: sums
  bool relu = false;                                                                   ///< negative results become zero
  int64_t begin = 0, end = 0, channels = 0;                                            ///< rows [begin, end)
};

/// first = the sums of x, second = those of x x.
void channel_sums_rows(Element element, const ChannelRows& rows);
/// out = x scale + offset + added.
void scale_channels_rows(Element element, const ChannelRows& rows);
/// first = the sums of g, second = those of g (x - mean); out, unless null, = g.
void channel_gradient_sums_rows(Element element, const ChannelRows& rows);
/// out = g scale + ((x - mean) slope + offset).
void channel_gradient_rows(Element element, const ChannelRows& rows);

}  // namespace weft
