// channel_kernels: channel normalisation of every pixel, in one pass over memory per function. Pixels are rows of `channels`
// columns; sums are made in float64, row by row.
#pragma once

#include <cstdint>

#include "weft/nn/kernels/element.h"

namespace weft {

/// Some rows (pixels) of matrices of `channels` columns. g below is dy, or zero where a ReLU's output `y` is zero; y null: no
/// ReLU. Tensors that a pass does not need are null.
struct ChannelRows {
  const void *x = nullptr, *dy = nullptr, *y = nullptr, *added = nullptr;              ///< [.., channels] of the element's type
  void* out = nullptr;                                                                 ///< like x
  const float *mean = nullptr, *scale = nullptr, *slope = nullptr, *offset = nullptr;  ///< [channels]
  double *first = nullptr, *second = nullptr;                                          ///< [channels], written: sums
  bool relu = false;                                                                   ///< negative results become zero
  int64_t begin = 0, end = 0, channels = 0;                                            ///< rows [begin, end)
};

/// Writes first = the sums of x, second = the sums of x^2.
void channel_sums_rows(Element element, const ChannelRows& rows);
/// out = x scale + offset + added.
void scale_channels_rows(Element element, const ChannelRows& rows);
/// Writes first = the sums of g, second = the sums of g (x - mean), and out = g unless out is null.
void channel_gradient_sums_rows(Element element, const ChannelRows& rows);
/// out = g scale + ((x - mean) slope + offset).
void channel_gradient_rows(Element element, const ChannelRows& rows);

}  // namespace weft
