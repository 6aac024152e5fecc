#include "weft/nn/device_kernels/layer_operators.h"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <optional>
#include <vector>

#include "weft/nn/device_kernels/activation_functions.h"
#include "weft/nn/device_kernels/loss_functions.h"
#include "weft/nn/device_kernels/norm_functions.h"
#include "weft/nn/device_kernels/shuffled.h"

namespace weft {

namespace layer_operators {
namespace {

using Tensor = at::Tensor;
using Optional = std::optional<at::Tensor>;

/// Calls of(Element()) with x's type of elements.
template <class Of>
void by_type(const Tensor& x, const Of& of) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "weft's kernel of a layer",
                                  [&] { of(scalar_t()); });
}

/// In a shuffled order, on the CPU.
struct OnCpu {
  static void norm(const Tensor& x, const NormMemory& m) {
    by_type(x,
            [&](auto type) { in_shuffled_order(m.rows, [&](int64_t row) { norm_row<decltype(type)>(HostWarp(), m, row); }); });
  }
  static void norm_again(const Tensor& x, const NormMemory& m) {
    by_type(x, [&](auto type) {
      in_shuffled_order(m.rows, [&](int64_t row) { norm_row_again<decltype(type)>(HostWarp(), m, row); });
    });
  }
  static void norm_gradients(const Tensor& x, const NormMemory& m) {
    by_type(x, [&](auto type) {
      using Element = decltype(type);
      in_shuffled_order(m.rows + m.width, [&](int64_t i) {
        i < m.rows ? norm_row_gradient<Element>(HostWarp(), m, i) : column<Element>(m, i - m.rows);
      });
    });
  }
  template <class Element>
  static void column(const NormMemory& m, int64_t i) {
    Two<Wide<Element>> parts[kColumnGroups];
    in_shuffled_order(kColumnGroups,
                      [&](int64_t group) { parts[group] = norm_column_part<Element>(m, i, static_cast<int>(group)); });
    for (int half = kColumnGroups / 2; half > 0; half /= 2) {
      for (int group = 0; group < half; ++group) parts[group] = parts[group] + parts[group + half];
    }
    put_norm_column<Element>(m, i, parts[0]);
  }
  static void activation(const Tensor& x, const ActivationMemory& m) {
    by_type(x, [&](auto type) { in_shuffled_order(m.numel, [&](int64_t i) { activate<decltype(type)>(m, i); }); });
  }
  static void activation_gradients(const Tensor& x, const ActivationMemory& m) {
    by_type(x, [&](auto type) { in_shuffled_order(m.numel, [&](int64_t i) { activation_gradient<decltype(type)>(m, i); }); });
  }
  static void turn(const Tensor& x, const RotaryMemory& m) {
    by_type(x, [&](auto type) { in_shuffled_order(m.numel(), [&](int64_t i) { turn_pair<decltype(type)>(m, i); }); });
  }
  static void class_losses(const Tensor& x, const LossMemory& m) {
    by_type(x,
            [&](auto type) { in_shuffled_order(m.rows, [&](int64_t row) { loss_row<decltype(type)>(HostWarp(), m, row); }); });
  }
  static void class_loss_gradient(const Tensor& x, const LossMemory& m) {
    by_type(x, [&](auto type) {
      in_shuffled_order(m.rows, [&](int64_t row) { loss_row_gradient<decltype(type)>(HostWarp(), m, row); });
    });
  }
};

constexpr LayerLaunches kOnCpu = {.norm = OnCpu::norm,
                                  .norm_again = OnCpu::norm_again,
                                  .norm_gradients = OnCpu::norm_gradients,
                                  .activation = OnCpu::activation,
                                  .activation_gradients = OnCpu::activation_gradients,
                                  .turn = OnCpu::turn,
                                  .class_losses = OnCpu::class_losses,
                                  .class_loss_gradient = OnCpu::class_loss_gradient};

/// Nothing on the meta device, where only sizes are wanted.
template <class Memory>
void launch(void (*LayerLaunches::*which)(const Tensor&, const Memory&), const Tensor& x, const Memory& memory) {
  if (const LayerLaunches* all = x.is_cpu() ? &kOnCpu : x.is_meta() ? nullptr : cuda_layer_launches()) (all->*which)(x, memory);
}

const void* read(const Optional& x) { return x && x->defined() && !x->is_meta() ? x->const_data_ptr() : nullptr; }
void* written(const Optional& x) { return x && x->defined() && !x->is_meta() ? x->mutable_data_ptr() : nullptr; }

NormMemory memory(const Tensor& x, const Tensor& weight, const Optional& bias) {
  return {.x = read(x),
          .weight = read(weight),
          .bias = read(bias),
          .has_wide_parameters = weight.scalar_type() != x.scalar_type(),
          .rows = x.numel() / x.size(-1),
          .width = x.size(-1)};
}

/// y, scale, the mean with a bias, and the sum of what is added.
std::vector<Tensor> norm(const Tensor& x, const Optional& added, const Tensor& weight, const Optional& bias, double eps) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = 1;
  const at::TensorOptions wide = x.options().dtype(at::toOpMathType(x.scalar_type()));
  std::vector<Tensor> all = {at::empty_like(x), at::empty(sizes, wide)};
  NormMemory m = memory(x, weight, bias);
  m.y = written(all[0]);
  m.made_scale = written(all[1]);
  if (bias) m.made_mean = written(all.emplace_back(at::empty(sizes, wide)));
  if (added) m.sum = written(all.emplace_back(at::empty_like(x)));
  m.added = read(added);
  m.eps = eps;
  launch(&LayerLaunches::norm, x, m);
  return all;
}

Tensor norm_again(const Tensor& x, const Optional& mean, const Tensor& scale, const Tensor& weight, const Optional& bias) {
  Tensor y = at::empty_like(x);
  NormMemory m = memory(x, weight, bias);
  m.y = written(y);
  m.mean = read(mean);
  m.scale = read(scale);
  launch(&LayerLaunches::norm_again, x, m);
  return y;
}

/// The gradients of x, of the weight, and of the bias if there is one; y if it is asked for.
std::vector<Tensor> norm_gradients(const Tensor& dy, const Optional& residual, const Tensor& x, const Optional& mean,
                                   const Tensor& scale, const Tensor& weight, const Optional& bias, bool with_y) {
  std::vector<Tensor> all = {at::empty_like(x), at::empty_like(weight)};
  NormMemory m = memory(x, weight, bias);
  m.dx = written(all[0]);
  m.d_weight = written(all[1]);
  if (bias) m.d_bias = written(all.emplace_back(at::empty_like(*bias)));
  if (with_y) m.y = written(all.emplace_back(at::empty_like(x)));
  m.dy = read(dy);
  m.residual = read(residual);
  m.mean = read(mean);
  m.scale = read(scale);
  launch(&LayerLaunches::norm_gradients, x, m);
  return all;
}

Tensor activation(const Tensor& x, const Optional& up) {
  Tensor y = at::empty_like(x);
  launch(&LayerLaunches::activation, x, {.x = read(x), .up = read(up), .y = written(y), .numel = x.numel()});
  return y;
}

void activation_gradients(const Tensor& dx, const Optional& d_up, const Optional& y, const Tensor& dy, const Tensor& x,
                          const Optional& up) {
  launch(&LayerLaunches::activation_gradients, x,
         {.x = read(x),
          .up = read(up),
          .y = written(y),
          .dy = read(dy),
          .dx = written(dx),
          .d_up = written(d_up),
          .numel = x.numel()});
}

void turn(const Tensor& y, const Tensor& x, const Tensor& cos, const Tensor& sin, double direction) {
  RotaryMemory m{.x = read(x), .cos = read(cos), .sin = read(sin), .y = written(y)};
  m.samples = x.size(0), m.heads = x.size(1), m.tokens = x.size(2), m.half = x.size(3) / 2;
  m.x_sample = x.stride(0), m.x_head = x.stride(1), m.x_token = x.stride(2);
  m.y_sample = y.stride(0), m.y_head = y.stride(1), m.y_token = y.stride(2);
  m.angle_sample = cos.dim() == 4 ? cos.stride(0) : 0, m.angle_token = cos.stride(-2);
  m.direction = direction;
  launch(&LayerLaunches::turn, x, m);
}

LossMemory memory(const Tensor& logits, const Tensor& targets, const Tensor& log_sums, int64_t ignored) {
  return {.logits = read(logits),
          .targets = static_cast<const int64_t*>(read(targets)),
          .log_sums = written(log_sums),
          .rows = logits.size(0),
          .classes = logits.size(1),
          .ignored = ignored};
}

/// Losses and log-sums.
std::vector<Tensor> class_losses(const Tensor& logits, const Tensor& targets, int64_t ignored) {
  const at::TensorOptions wide = logits.options().dtype(at::toOpMathType(logits.scalar_type()));
  std::vector<Tensor> all = {at::empty({logits.size(0)}, wide), at::empty({2, logits.size(0)}, wide)};
  LossMemory m = memory(logits, targets, all[1], ignored);
  m.losses = written(all[0]);
  launch(&LayerLaunches::class_losses, logits, m);
  return all;
}

Tensor class_loss_gradient(const Tensor& factor, const Tensor& logits, const Tensor& targets, const Tensor& log_sums,
                           int64_t ignored) {
  Tensor gradient = at::empty_like(logits);
  LossMemory m = memory(logits, targets, log_sums, ignored);
  m.factor = read(factor);
  m.gradient = written(gradient);
  launch(&LayerLaunches::class_loss_gradient, logits, m);
  return gradient;
}

}  // namespace
}  // namespace layer_operators

void implement_layer_operators(torch::Library& device) {
  device.impl("norm", layer_operators::norm);
  device.impl("norm_again", layer_operators::norm_again);
  device.impl("norm_gradients", layer_operators::norm_gradients);
  device.impl("activation", layer_operators::activation);
  device.impl("activation_gradients", layer_operators::activation_gradients);
  device.impl("turn", layer_operators::turn);
  device.impl("class_losses", layer_operators::class_losses);
  device.impl("class_loss_gradient", layer_operators::class_loss_gradient);
}

}  // namespace weft
