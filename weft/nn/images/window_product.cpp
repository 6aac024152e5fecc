#include "weft/nn/images/window_product.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "weft/comm/threads/parallel_for.h"
#include "weft/nn/functional/matmul.h"
#include "weft/nn/functional/matrix_layer.h"
#include "weft/nn/images/channels_last.h"
#include "weft/nn/kernel_record.h"
#include "weft/nn/kernels/kernel_table.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

/// Sizes of a convolution, and of its windows.
struct Windows {
  Windows(const at::Tensor& x, const at::Tensor& weight, int64_t stride)
      : samples(x.size(0)),
        channels(x.size(1)),
        height(x.size(2)),
        width(x.size(3)),
        kernel(weight.size(2)),
        stride(stride),
        rows((height + 2 * (kernel / 2) - kernel) / stride + 1),
        columns((width + 2 * (kernel / 2) - kernel) / stride + 1) {}

  int64_t pixels() const { return samples * rows * columns; }
  int64_t values() const { return channels * kernel * kernel; }  ///< elements per window
  bool are_pixels() const { return kernel == 1 && stride == 1; }

  int64_t samples, channels, height, width, kernel, stride, rows, columns;
};

/// For each pixel of a row of outputs, calls each(number of the window, position in the filter, number of the input pixel).
template <class Each>
void visit_row(const Windows& w, int64_t sample, int64_t row, const Each& each) {
  for (int64_t column = 0; column < w.columns; ++column) {
    const int64_t window = (sample * w.rows + row) * w.columns + column;
    for (int64_t ky = 0; ky < w.kernel; ++ky) {
      const int64_t y = row * w.stride + ky - w.kernel / 2;
      if (y < 0 || y >= w.height) continue;
      for (int64_t kx = 0; kx < w.kernel; ++kx) {
        const int64_t x = column * w.stride + kx - w.kernel / 2;
        if (x < 0 || x >= w.width) continue;
        each(window, ky * w.kernel + kx, (sample * w.height + y) * w.width + x);
      }
    }
  }
}

/// [n, c, h, w] in channels-last order, as [pixels, c].
at::Tensor as_matrix(const at::Tensor& x) { return x.permute({0, 2, 3, 1}).reshape({-1, x.size(1)}); }

/// [pixels, in k k], values in the filter's order.
at::Tensor windows_of(const at::Tensor& x, const Windows& w) {
  if (w.are_pixels()) return as_matrix(x);
  const at::Tensor turned = x.permute({0, 2, 3, 1}).contiguous();  // on any processor, unlike channels_last()
  const at::Tensor windows = at::zeros({w.pixels(), w.values()}, x.options());
  const KernelRecord record("weft::windows", {turned, windows});
  if (!has_elements(x)) return windows;
  const auto* from = turned.const_data_ptr<float>();
  auto* to = windows.mutable_data_ptr<float>();
  parallel_for(w.samples * w.rows, pieces_worth_a_thread(w.columns * w.values()), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      visit_row(w, i / w.rows, i % w.rows, [&](int64_t window, int64_t place, int64_t pixel) {
        const float* values = from + pixel * w.channels;
        float* out = to + window * w.values() + place;
        for (int64_t c = 0; c < w.channels; ++c) out[c * w.kernel * w.kernel] = values[c];
      });
    }
  });
  return windows;
}

/// For each input pixel, the sum of its values in all windows.
at::Tensor sum_of_windows(const at::Tensor& windows, const Windows& w) {
  const auto order = windows.options().memory_format(at::MemoryFormat::ChannelsLast);
  const at::Tensor x = at::empty({w.samples, w.channels, w.height, w.width}, order).zero_();
  const KernelRecord record("weft::windows", {windows, x});
  if (!has_elements(windows)) return x;
  const auto* from = windows.const_data_ptr<float>();
  auto* to = x.mutable_data_ptr<float>();
  parallel_for(w.samples, pieces_worth_a_thread(w.rows * w.columns * w.values()), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * w.rows; i < end * w.rows; ++i) {
      visit_row(w, i / w.rows, i % w.rows, [&](int64_t window, int64_t place, int64_t pixel) {
        const float* values = from + window * w.values() + place;
        float* out = to + pixel * w.channels;
        for (int64_t c = 0; c < w.channels; ++c) out[c] += values[c * w.kernel * w.kernel];
      });
    }
  });
  return x;
}

/// Throws InputError unless x and weight have windows.
Windows checked_windows(const at::Tensor& x, const at::Tensor& weight, int64_t stride) {
  constexpr int64_t kAny = TensorChecks::kAny;
  const TensorChecks check("convolution by windows");
  check.floating("x", x, {kAny, kAny, kAny, kAny}, x);
  check.that(x.scalar_type() == at::kFloat && has_weft_kernel(ModelOperation::convolution, x.device()) && stride >= 1, "x", x,
             "Float on the CPU, with a stride of at least 1");
  check.floating("weight", weight, {kAny, x.size(1), kAny, kAny}, x);
  check.that(weight.scalar_type() == at::kFloat && weight.size(2) >= 1 && weight.size(2) == weight.size(3), "weight", weight,
             "Float [out, in, k, k]");
  const Windows w(x, weight, stride);
  check.that(weight.size(0) > 0 && w.channels > 0, "weight", weight, "not empty");
  check.that(w.height > 0 && w.width > 0 && w.rows > 0 && w.columns > 0, "x", x, "at least as large as a filter");
  return w;
}

/// The same, for a gradient of the convolution's output.
Windows checked_windows(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, int64_t stride) {
  const Windows w = checked_windows(x, weight, stride);
  TensorChecks("convolution by windows").floating("dy", dy, {w.samples, weight.size(0), w.rows, w.columns}, x);
  return w;
}

}  // namespace

bool suits_windows(const at::Tensor& x, const at::Tensor& weight, int64_t stride) {
  if (!x.defined() || !weight.defined() || weight.dim() != 4 || weight.size(2) < 1 || stride < 1) return false;
  return x.dim() == 4 && x.size(2) > 0 && x.size(3) > 0 && x.scalar_type() == at::kFloat &&
         weight.scalar_type() == at::kFloat && is_better_channels_last(x) &&
         Windows(x, weight, stride).pixels() < weight.size(0);
}

at::Tensor window_product(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                          int64_t stride) {
  const Windows w = checked_windows(x, weight, stride);
  const at::Tensor y = kMatrixLayer.forward(windows_of(x, w), weight.flatten(1), bias);
  // Not a view of y: a view returned by a custom function could not be changed in place.
  return y.view({w.samples, w.rows, w.columns, weight.size(0)}).permute({0, 3, 1, 2}).variable_data();
}

at::Tensor window_input_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, int64_t stride) {
  const Windows w = checked_windows(dy, x, weight, stride);
  const at::Tensor windows = at::empty({w.pixels(), w.values()}, x.options().memory_format(at::MemoryFormat::Contiguous));
  multiply(windows, as_matrix(channels_last(dy)), weight.flatten(1));
  if (!w.are_pixels()) return sum_of_windows(windows, w);
  return windows.view({w.samples, w.rows, w.columns, w.channels}).permute({0, 3, 1, 2});
}

void add_window_gradients(Parameter& weight, Parameter* bias, const at::Tensor& dy, const at::Tensor& x, int64_t stride) {
  const Windows w = checked_windows(dy, x, weight.value, stride);
  Parameter matrix{weight.value.detach().flatten(1), weight.gradient.flatten(1)};
  at::Tensor& gradient = weight.value.mutable_grad();
  if (gradient.defined()) matrix.value.mutable_grad() = gradient.flatten(1);
  kMatrixLayer.add_gradients(matrix, bias, as_matrix(channels_last(dy)), windows_of(x, w));
  if (!gradient.defined()) gradient = weight.gradient;
}

}  // namespace weft
