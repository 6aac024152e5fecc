#include "weft/nn/images/channel_passes.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "weft/comm/threads/parallel_for.h"
#include "weft/nn/kernel_record.h"
#include "weft/nn/kernels/channel_kernels.h"
#include "weft/nn/kernels/in_parts.h"
#include "weft/nn/kernels/kernel_table.h"
#include "weft/nn/kernels/tensors.h"
#include "weft/nn/ordered_sums.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

using Kernel = void (*)(Element element, const ChannelRows& rows);

int64_t rows_in(const at::Tensor& x) { return x.size(0) * x.size(2) * x.size(3); }

constexpr int64_t kChunkRows = 256;

/// Calls the kernel for all rows, in chunks that may run in parallel: of(chunk, its ChannelRows).
template <class Of>
void run_chunks(Kernel kernel, const at::Tensor& x, int64_t chunk_rows, const Of& of) {
  const int64_t rows = rows_in(x), chunks = (rows + chunk_rows - 1) / chunk_rows;
  parallel_for(chunks, pieces_worth_a_thread(chunk_rows * x.size(1)), [&](int64_t first, int64_t last) {
    for (int64_t chunk = first; chunk < last; ++chunk) {
      ChannelRows own = of(chunk);
      own.begin = chunk * chunk_rows;
      own.end = std::min(rows, own.begin + chunk_rows);
      own.channels = x.size(1);
      kernel(element_of(x), own);
    }
  });
}

/// Sums over all rows by a kernel that makes two sums per channel: adds the chunks' sums in order.
at::Tensor sums_of(const char* name, Kernel kernel, const at::Tensor& x, ChannelRows rows,
                   std::initializer_list<at::Tensor> tensors) {
  const int64_t channels = x.size(1);
  const RowChunks chunks(rows_in(x), kChunkRows);
  const at::TensorOptions wide = x.options().dtype(at::kDouble).memory_format(at::MemoryFormat::Contiguous);
  const at::Tensor parts = at::zeros({std::max<int64_t>(chunks.count, 1), 2 * channels}, wide);
  const at::Tensor made = parts[0];
  const KernelRecord record(name, tensors);
  if (!has_elements(x)) return made;
  auto* sums = parts.mutable_data_ptr<double>();
  run_chunks(kernel, x, chunks.rows_each, [&](int64_t chunk) {
    ChannelRows own = rows;
    own.first = sums + chunk * 2 * channels;
    own.second = own.first + channels;
    return own;
  });
  for (int64_t chunk = 1; chunk < chunks.count; ++chunk) {
    for (int64_t i = 0; i < 2 * channels; ++i) sums[i] += sums[chunk * 2 * channels + i];
  }
  return made;
}

constexpr TensorChecks kCheck("batch norm by pixels");

/// Checks x [n, channels, h, w] in the order that the kernels read.
void check_pixels(const at::Tensor& x) {
  kCheck.floats("x", x, 4);
  const bool fits = has_weft_kernel(ModelOperation::batch_norm, x.device()) &&
                    (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16) && x.dim() == 4 &&
                    x.is_contiguous(at::MemoryFormat::ChannelsLast);
  kCheck.that(fits, "x", x, "Float or BFloat16 [n, channels, h, w], channels last, on the CPU");
}

void check_like(const char* name, const at::Tensor& other, const at::Tensor& x) {
  kCheck.like(name, other, x);
  kCheck.that(other.is_contiguous(at::MemoryFormat::ChannelsLast), name, other, "channels last");
}

void check_of_channels(const char* name, const at::Tensor& values, const at::Tensor& x) {
  kCheck.sizes(name, values, {x.size(1)}, x);
  kCheck.that(values.scalar_type() == at::kFloat && values.is_contiguous(), name, values, "Float, contiguous");
}

void check_gradient(const ChannelGradient& gradient) {
  check_pixels(gradient.x);
  check_like("dy", gradient.dy, gradient.x);
  if (gradient.y.defined()) check_like("y", gradient.y, gradient.x);
  check_of_channels("mean", gradient.mean, gradient.x);
}

}  // namespace

at::Tensor channel_sums(const at::Tensor& x) {
  check_pixels(x);
  return sums_of("weft::channels", channel_sums_rows, x, {.x = elements_of(x)}, {x});
}

at::Tensor scale_channels(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& offset, const at::Tensor& added,
                          bool relu) {
  check_pixels(x);
  check_of_channels("scale", scale, x);
  check_of_channels("offset", offset, x);
  if (added.defined()) check_like("added", added, x);
  const at::Tensor y = at::empty_like(x);
  const KernelRecord record("weft::channels", {x, added, y});
  if (!has_elements(x)) return y;
  const ChannelRows rows{.x = elements_of(x),
                         .added = elements_of(added),
                         .out = y.mutable_data_ptr(),
                         .scale = scale.const_data_ptr<float>(),
                         .offset = offset.const_data_ptr<float>(),
                         .relu = relu};
  run_chunks(scale_channels_rows, x, kChunkRows, [&](int64_t) { return rows; });
  return y;
}

at::Tensor gradient_sums(const ChannelGradient& gradient, const at::Tensor& kept) {
  check_gradient(gradient);
  if (kept.defined()) check_like("kept", kept, gradient.x);
  return sums_of("weft::channels_backward", channel_gradient_sums_rows, gradient.x,
                 {.x = elements_of(gradient.x),
                  .dy = elements_of(gradient.dy),
                  .y = elements_of(gradient.y),
                  .out = elements_in(kept),
                  .mean = static_cast<const float*>(elements_of(gradient.mean))},
                 {gradient.x, gradient.dy, gradient.y, kept});
}

void gradient_of_x(const at::Tensor& out, const ChannelGradient& gradient, const at::Tensor& scale, const at::Tensor& slope,
                   const at::Tensor& offset) {
  check_gradient(gradient);
  check_like("out", out, gradient.x);
  check_of_channels("scale", scale, out);
  check_of_channels("slope", slope, out);
  check_of_channels("offset", offset, out);
  const KernelRecord record("weft::channels_backward", {gradient.x, gradient.dy, gradient.y, out});
  if (!has_elements(out)) return;
  const ChannelRows rows{.x = elements_of(gradient.x),
                         .dy = elements_of(gradient.dy),
                         .y = elements_of(gradient.y),
                         .out = out.mutable_data_ptr(),
                         .mean = gradient.mean.const_data_ptr<float>(),
                         .scale = scale.const_data_ptr<float>(),
                         .slope = slope.const_data_ptr<float>(),
                         .offset = offset.const_data_ptr<float>()};
  run_chunks(channel_gradient_rows, gradient.x, kChunkRows, [&](int64_t) { return rows; });
}

}  // namespace weft
