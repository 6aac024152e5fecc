#include "weft/nn/functional/rotary.h"

#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sub.h>
#include <fmt/core.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/comm/threads/parallel_for.h"
#include "weft/nn/device_kernels/layer_kernels.h"
#include "weft/nn/graph.h"
#include "weft/nn/id_checks.h"
#include "weft/nn/kernel_record.h"
#include "weft/nn/kernels/kernel_table.h"
#include "weft/nn/kernels/rotary_kernels.h"
#include "weft/nn/kernels/tensors.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Returns whether the kernel takes heads [batch, heads, tokens, head width], contiguous, with angles per token or per sample.
bool fits_rotary_kernel(const at::Tensor& x, const at::Tensor& y, const at::Tensor& cos, const at::Tensor& sin) {
  const at::ScalarType type = x.scalar_type();
  const bool is_narrow = type == at::kFloat || type == at::kBFloat16;
  const auto fits = [&](const at::Tensor& t) {
    return (has_device_kernel(ModelOperation::rotary, t) ||
            (is_narrow && has_weft_kernel(ModelOperation::rotary, t.device()))) &&
           t.scalar_type() == type && t.stride(-1) == 1;
  };
  if (x.dim() != 4 || !fits(x) || !fits(y)) return false;
  const std::vector<int64_t> of_tokens = {x.size(2), x.size(3) / 2}, of_samples = {x.size(0), 1, x.size(2), x.size(3) / 2};
  return fits(cos) && fits(sin) && cos.strides() == sin.strides() && cos.sizes() == sin.sizes() &&
         (cos.sizes() == of_tokens || cos.sizes() == of_samples);
}

void turn_by_kernel(const at::Tensor& x, const at::Tensor& y, const at::Tensor& cos, const at::Tensor& sin, double direction) {
  const KernelRecord record("weft::turn", {x, y});
  if (!has_elements(x)) return;
  const int64_t heads = x.size(1), bytes = static_cast<int64_t>(x.element_size());
  const int64_t angle_sample = cos.dim() == 4 ? cos.stride(0) : 0;
  parallel_for(x.size(0) * heads, pieces_worth_a_thread(x.size(2) * x.size(3)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t sample = i / heads, head = i % heads;
      const auto at = [&](const at::Tensor& t, int64_t place) { return static_cast<char*>(t.data_ptr()) + place * bytes; };
      rotary_rows(element_of(x), {.x = at(x, sample * x.stride(0) + head * x.stride(1)),
                                  .y = at(y, sample * y.stride(0) + head * y.stride(1)),
                                  .cos = at(cos, sample * angle_sample),
                                  .sin = at(sin, sample * angle_sample),
                                  .x_token = x.stride(2),
                                  .y_token = y.stride(2),
                                  .angle_token = cos.stride(-2),
                                  .tokens = x.size(2),
                                  .half = x.size(3) / 2,
                                  .direction = static_cast<float>(direction)});
    }
  });
}

/// The kernel's bits: products in at least float32, each rounded before the sum (addcmul may fuse them), which is rounded to
/// y's type.
void turn_by_operators(const at::Tensor& x, const at::Tensor& y, const at::Tensor& cos, const at::Tensor& sin,
                       double direction) {
  const int64_t half = x.size(-1) / 2;
  const at::Tensor halves = x.unflatten(-1, {2, half});
  const Tensors angles = widen({cos, sin});
  const at::Tensor along = halves.mul(angles[0].unsqueeze(-2)), across = halves.mul(angles[1].unsqueeze(-2));
  at::Tensor y_low = y.narrow(-1, 0, half), y_high = y.narrow(-1, half, half);
  at::sub_out(y_low, along.select(-2, 0), across.select(-2, 1), direction);
  at::add_out(y_high, along.select(-2, 1), across.select(-2, 0), direction);
}

/// Rotates by the angles, or back with direction -1. Memory layout as x's.
at::Tensor turn(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, double direction) {
  at::Tensor y = at::empty_like(x);
  if (!fits_rotary_kernel(x, y, cos, sin)) {
    turn_by_operators(x, y, cos, sin, direction);
  } else if (has_device_kernel(ModelOperation::rotary, x)) {
    turn_on_device(y, x, cos, sin, direction);
  } else {
    turn_by_kernel(x, y, cos, sin, direction);
  }
  return y;
}

struct RotateFunction : torch::autograd::Function<RotateFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
    context->save_for_backward({cos, sin});
    return turn(x, cos, sin, 1.0);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_order("rotary embedding");
    const variable_list saved = context->get_saved_variables();
    return {turn(gradients[0], saved[0], saved[1], -1.0), {}, {}};
  }
};

}  // namespace

Rotation rotation_at(const at::Tensor& positions, int64_t head_width, double theta, at::ScalarType dtype) {
  const TensorChecks check("rotary embedding");
  check.sizes("positions", positions, {TensorChecks::kAny}, positions);
  check.that(at::isIntegralType(positions.scalar_type(), /*includeBool=*/false), "positions", positions, "whole numbers");
  if (!at::isFloatingType(dtype))
    throw InputError(fmt::format("rotary embedding: angles are floating point, not {}", c10::toString(dtype)));
  if (head_width % 2 != 0 || head_width < 0) {
    throw InputError(
        fmt::format("rotary embedding: a head of {} elements cannot be rotated; its width must be even", head_width));
  }
  const at::Tensor exponents = at::arange(0, head_width, 2, positions.options().dtype(at::kFloat)).div_(head_width);
  const at::Tensor angles = positions.to(at::kFloat).unsqueeze(1).mul(at::pow(theta, exponents).reciprocal_());
  return {angles.cos().to(dtype), angles.sin().to(dtype)};
}

Rotation rotation_of_samples(const Rotation& table, const at::Tensor& places) {
  const TensorChecks check("rotary embedding");
  check.floating("cos", table.cos, {TensorChecks::kAny, TensorChecks::kAny}, table.cos);
  check.like("sin", table.sin, table.cos);
  check.ids("places", places, table.cos);
  check.sizes("places", places, {TensorChecks::kAny, TensorChecks::kAny}, table.cos);
  const at::Tensor rows = checked_ids("rotary embedding: position", places, table.cos.size(0));
  return {at::embedding(table.cos, rows).unsqueeze(1), at::embedding(table.sin, rows).unsqueeze(1)};
}

at::Tensor rotate(const at::Tensor& x, const Rotation& rotation) {
  const TensorChecks check("rotary embedding");
  check.floats("x", x, 2);
  check.that(x.size(-1) % 2 == 0, "x", x, "of an even head width");
  const int64_t tokens = x.size(-2), half = x.size(-1) / 2;
  const bool by_samples = rotation.cos.defined() && rotation.cos.dim() == 4 && x.dim() == 4;
  for (const auto& [name, angles] : {std::pair("cos", rotation.cos), std::pair("sin", rotation.sin)}) {
    if (by_samples) {
      check.floating(name, angles, {x.size(0), 1, tokens, half}, x);
    } else {
      check.floating(name, angles, {tokens, half}, x);
    }
    check.constant(name, angles);
  }
  return RotateFunction::apply(x, rotation.cos, rotation.sin);
}

}  // namespace weft
