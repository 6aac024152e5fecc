#include "weft/nn/functional/norms.h"

#include <ATen/OpMathType.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "weft/comm/threads/parallel_for.h"
#include "weft/nn/device_kernels/layer_kernels.h"
#include "weft/nn/graph.h"
#include "weft/nn/kernel_record.h"
#include "weft/nn/kernels/kernel_table.h"
#include "weft/nn/kernels/norm_kernels.h"
#include "weft/nn/kernels/tensors.h"
#include "weft/nn/ordered_sums.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kChunkOfRows = 64;

bool fits_norm_kernels(const at::Tensor& x, const Norm& norm) {
  const auto is_narrow = [](const at::Tensor& w) { return w.scalar_type() == at::kFloat || w.scalar_type() == at::kBFloat16; };
  const at::ScalarType type = x.scalar_type();
  return has_weft_kernel(ModelOperation::norm, x.device()) && (type == at::kFloat || type == at::kBFloat16) &&
         is_narrow(norm.weight) && x.numel() > 0;
}

bool has_device_norm(const at::Tensor& x) { return has_device_kernel(ModelOperation::norm, x); }

/// Checks x [..., width] and the norm's parameters.
void check_norm(const TensorChecks& check, const at::Tensor& x, const Norm& norm) {
  check.floats("x", x, 1);
  check.floating("weight", norm.weight, {x.size(-1)}, x);
  if (norm.centres()) check.floating("bias", norm.bias, {x.size(-1)}, x);
}

/// Checks the result of normalise_sum(), or an equivalent.
void check_kept(const TensorChecks& check, const Normalised& kept, const Norm& norm) {
  check_norm(check, kept.sum, norm);
  std::vector<int64_t> one_a_row = kept.sum.sizes().vec();
  one_a_row.back() = 1;
  const bool by_kernel = fits_norm_kernels(kept.sum, norm) || has_device_norm(kept.sum);
  const at::ScalarType type = at::toOpMathType(kept.sum.scalar_type());
  const auto of_rows = [&](const char* name, const at::Tensor& x) {
    check.floating(name, x, one_a_row, kept.sum);
    check.that(x.is_contiguous() && (!by_kernel || x.scalar_type() == type), name, x,
               "contiguous, and for kernels Float, or Double for Double rows");
  };
  of_rows("scale", kept.scale);
  if (norm.centres()) of_rows("mean", kept.mean);
}

/// Pointer to the elements of x; null if it has none.
template <class T = void>
T* memory_of(const at::Tensor& x) {
  return has_elements(x) ? static_cast<T*>(x.data_ptr()) : nullptr;
}

at::Tensor as_floats(const at::Tensor& x) { return x.defined() ? x.detach().to(at::kFloat).contiguous() : x; }

/// Rows [begin, end) of `all`.
NormRows rows_between(const NormRows& all, int64_t begin, int64_t end, int64_t element_bytes) {
  NormRows part = all;
  const int64_t bytes = begin * all.width * element_bytes;
  for (const void** data : {&part.x, &part.added, &part.dy, &part.residual}) {
    if (*data) *data = static_cast<const char*>(*data) + bytes;
  }
  for (void** data : {&part.sum, &part.y, &part.dx}) {
    if (*data) *data = static_cast<char*>(*data) + bytes;
  }
  if (part.mean) part.mean += begin;
  part.scale += begin;
  part.rows = end - begin;
  return part;
}

/// Calls of(part) for chunks of the rows, each on one thread, with `chunk_rows` rows each except the last.
template <class Of>
void in_chunks(const at::Tensor& x, const NormRows& all, int64_t chunk_rows, const Of& of) {
  if (!has_elements(x)) return;
  parallel_for((all.rows + chunk_rows - 1) / chunk_rows, pieces_worth_a_thread(chunk_rows * all.width),
               [&](int64_t begin, int64_t end) {
                 for (int64_t chunk = begin; chunk < end; ++chunk) {
                   const int64_t first = chunk * chunk_rows, last = std::min(all.rows, first + chunk_rows);
                   of(chunk, rows_between(all, first, last, static_cast<int64_t>(x.element_size())));
                 }
               });
}

/// One number per row of x [..., width], in the shape of operators that keep dimensions.
at::Tensor of_each_row(const at::Tensor& x) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = 1;
  return at::empty(sizes, x.options().dtype(at::kFloat).memory_format(at::MemoryFormat::Contiguous));
}

NormRows rows_with(const at::Tensor& x, const Normalised& n, const at::Tensor& weight, const at::Tensor& bias) {
  NormRows rows{.x = memory_of(x), .y = memory_of(n.y), .rows = x.numel() / x.size(-1), .width = x.size(-1)};
  rows.mean = memory_of<float>(n.mean);
  rows.scale = memory_of<float>(n.scale);
  rows.weight = memory_of<const float>(weight);
  rows.bias = memory_of<const float>(bias);
  return rows;
}

Normalised normalise_by_kernel(const at::Tensor& x, const at::Tensor& added, const Norm& norm) {
  Normalised n{.sum = added.defined() ? at::empty_like(x) : x,
               .y = at::empty_like(x),
               .mean = norm.centres() ? of_each_row(x) : at::Tensor(),
               .scale = of_each_row(x)};
  const at::Tensor weight = as_floats(norm.weight), bias = as_floats(norm.bias);
  NormRows rows = rows_with(x, n, weight, bias);
  rows.added = memory_of(added);
  rows.sum = added.defined() ? memory_of(n.sum) : nullptr;
  rows.eps = static_cast<float>(norm.eps);
  const KernelRecord record("weft::norm", {x, added, added.defined() ? n.sum : at::Tensor(), n.y});
  in_chunks(x, rows, kChunkOfRows, [&](int64_t, const NormRows& part) { norm_rows(element_of(x), part); });
  return n;
}

NormGradients gradients_by_kernel(const at::Tensor& dy, const at::Tensor& residual, const Normalised& kept, const Norm& norm) {
  const at::Tensor x = kept.sum.contiguous(), weight = as_floats(norm.weight), dx = at::empty_like(x);
  NormRows rows = rows_with(x, {{}, {}, kept.mean, kept.scale}, weight, {});
  rows.dy = memory_of(dy);
  rows.residual = memory_of(residual);
  rows.dx = memory_of(dx);
  const int64_t width = rows.width;
  const RowChunks chunks(rows.rows);
  const at::Tensor sums = at::empty({chunks.count, 2, width}, weight.options());
  auto* data = memory_of<float>(sums);
  {
    const KernelRecord record("weft::norm_backward", {x, dy, residual, dx});
    in_chunks(x, rows, chunks.rows_each, [&](int64_t chunk, const NormRows& part) {
      NormRows own = part;
      own.gradient_sums = data + chunk * 2 * width;
      norm_backward_rows(element_of(x), own);
    });
    if (data) add_up_in_tree(data, chunks.count, 2 * width);
  }
  // Copies, so they do not keep the sums of all chunks alive.
  const auto taken = [&](int64_t which) { return sums[0][which].to(norm.weight.scalar_type(), false, /*copy=*/true); };
  return {dx, taken(0), norm.centres() ? taken(1) : at::Tensor()};
}

/// x times scale, for RMS norm, in at least float32, by operators.
at::Tensor scaled_rows(const Normalised& kept) { return widen({kept.sum})[0].mul(kept.scale); }

Normalised normalise_by_operators(const at::Tensor& x, const at::Tensor& added, const Norm& norm) {
  Normalised n{.sum = added.defined() ? at::add(x, added) : x, .y = {}, .mean = {}, .scale = {}};
  if (norm.centres()) {
    std::tie(n.y, n.mean, n.scale) = at::native_layer_norm(n.sum, {x.size(-1)}, norm.weight, norm.bias, norm.eps);
    return n;
  }
  n.scale = widen({n.sum})[0].square().mean(-1, /*keepdim=*/true).add_(norm.eps).rsqrt_();
  n.y = normalise_again(n, norm);
  return n;
}

NormGradients gradients_by_operators(const at::Tensor& dy, const at::Tensor& residual, const Normalised& kept,
                                     const Norm& norm) {
  NormGradients all;
  if (norm.centres()) {
    std::tie(all.x, all.weight, all.bias) = at::native_layer_norm_backward(
        dy, kept.sum, {kept.sum.size(-1)}, kept.mean, kept.scale, norm.weight, norm.bias, {true, true, true});
  } else {
    const at::Tensor n = scaled_rows(kept), wide = widen({dy})[0], g = wide.mul(widen({norm.weight})[0]);
    const at::Tensor dx = g.sub(n.mul(g.mul(n).mean(-1, /*keepdim=*/true))).mul_(kept.scale);
    all = {dx.to(kept.sum.scalar_type()), wide.mul(n).sum_to_size(norm.weight.sizes()).to(norm.weight.scalar_type()), {}};
  }
  if (residual.defined()) all.x.add_(residual);
  return all;
}

/// A tensor for device kernels: of `type`, and dense.
at::Tensor as_dense(const at::Tensor& x, at::ScalarType type) { return x.defined() ? x.detach().to(type).contiguous() : x; }

/// The parameters as device kernels for rows like x take them.
DeviceNorm parameters_for(const at::Tensor& x, const Norm& norm) {
  const at::ScalarType type = norm.weight.scalar_type(), own = x.scalar_type();
  const bool are_alike = !norm.centres() || norm.bias.scalar_type() == type;
  const at::ScalarType taken = are_alike && type == own ? own : at::toOpMathType(own);
  return {as_dense(norm.weight, taken), as_dense(norm.bias, taken), norm.eps};
}

DeviceRows device_rows(const Normalised& kept) { return {kept.sum.contiguous(), kept.mean, kept.scale, {}}; }

Normalised normalise_by_device(const at::Tensor& x, const at::Tensor& added, const Norm& norm) {
  DeviceRows n = normalise_on_device(x.contiguous(), as_dense(added, x.scalar_type()), parameters_for(x, norm));
  return {std::move(n.sum), std::move(n.y), std::move(n.mean), std::move(n.scale)};
}

NormGradients gradients_by_device(const at::Tensor& dy, const at::Tensor& residual, const Normalised& kept, const Norm& norm,
                                  bool with_y) {
  const at::ScalarType type = kept.sum.scalar_type();
  const auto gradients = with_y ? norm_gradients_and_y_on_device : norm_gradients_on_device;
  DeviceNormGradients all =
      gradients(as_dense(dy, type), as_dense(residual, type), device_rows(kept), parameters_for(kept.sum, norm));
  const auto as = [](const at::Tensor& gradient, const at::Tensor& of) {
    return gradient.defined() ? gradient.to(of.scalar_type()) : gradient;
  };
  return {std::move(all.x), as(all.weight, norm.weight), as(all.bias, norm.bias), std::move(all.y)};
}

void check_gradients(const at::Tensor& dy, const at::Tensor& residual, const Normalised& kept, const Norm& norm) {
  const TensorChecks check("gradient of a norm");
  check_kept(check, kept, norm);
  check.floating("dy", dy, kept.sum.sizes(), kept.sum);
  if (residual.defined()) check.floating("residual", residual, kept.sum.sizes(), kept.sum);
}

struct NormFunction : torch::autograd::Function<NormFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, double eps) {
    const Normalised n = normalise_sum(x, {}, {weight, bias.value_or(at::Tensor()), eps});
    context->save_for_backward({n.sum, n.mean, n.scale, weight, bias.value_or(at::Tensor())});
    context->saved_data["eps"] = eps;
    return n.y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_order("norm");
    const variable_list saved = context->get_saved_variables();
    NormGradients all = norm_gradients(gradients[0], {}, {saved[0], {}, saved[1], saved[2]},
                                       {saved[3], saved[4], context->saved_data["eps"].toDouble()});
    return {std::move(all.x), std::move(all.weight), std::move(all.bias), {}};
  }
};

}  // namespace

at::Tensor normalise(const at::Tensor& x, const Norm& norm) {
  check_norm(TensorChecks("norm"), x, norm);
  return NormFunction::apply(x, norm.weight, norm.centres() ? std::optional(norm.bias) : std::nullopt, norm.eps);
}

Normalised normalise_sum(const at::Tensor& x, const at::Tensor& added, const Norm& norm) {
  const TensorChecks check("norm");
  check_norm(check, x, norm);
  if (added.defined()) check.floating("added", added, x.sizes(), x);
  if (added.defined() && added.scalar_type() != x.scalar_type()) return normalise_sum(x.add(added), {}, norm);
  if (has_device_norm(x)) return normalise_by_device(x, added, norm);
  if (!fits_norm_kernels(x, norm)) return normalise_by_operators(x, added, norm);
  return normalise_by_kernel(x.contiguous(), added.defined() ? added.contiguous() : added, norm);
}

at::Tensor normalise_again(const Normalised& kept, const Norm& norm) {
  check_kept(TensorChecks("norm"), kept, norm);
  if (has_device_norm(kept.sum)) return normalise_again_on_device(device_rows(kept), parameters_for(kept.sum, norm));
  const at::Tensor x = kept.sum.contiguous();
  if (!fits_norm_kernels(x, norm)) {
    const at::ScalarType type = x.scalar_type();
    if (!norm.centres()) return scaled_rows(kept).to(type).mul(norm.weight).to(type);  // rounded first, as in the kernel
    return std::get<0>(at::native_layer_norm(x, {x.size(-1)}, norm.weight, norm.bias, norm.eps));
  }
  Normalised again{.sum = x, .y = at::empty_like(x), .mean = kept.mean, .scale = kept.scale};
  const at::Tensor weight = as_floats(norm.weight), bias = as_floats(norm.bias);
  const KernelRecord record("weft::norm", {x, again.y});
  in_chunks(x, rows_with(x, again, weight, bias), kChunkOfRows,
            [&](int64_t, const NormRows& part) { norm_again_rows(element_of(x), part); });
  return again.y;
}

NormGradients norm_gradients(const at::Tensor& dy, const at::Tensor& residual, const Normalised& kept, const Norm& norm) {
  check_gradients(dy, residual, kept, norm);
  if (has_device_norm(kept.sum)) return gradients_by_device(dy, residual, kept, norm, /*with_y=*/false);
  const auto is_like = [&](const at::Tensor& x) { return !x.defined() || x.scalar_type() == kept.sum.scalar_type(); };
  if (!fits_norm_kernels(kept.sum, norm) || !is_like(dy) || !is_like(residual)) {
    return gradients_by_operators(dy, residual, kept, norm);
  }
  return gradients_by_kernel(dy.contiguous(), residual.defined() ? residual.contiguous() : residual, kept, norm);
}

bool gives_norm_again(const at::Tensor& sum) { return has_device_norm(sum); }

NormGradients norm_gradients_and_output(const at::Tensor& dy, const at::Tensor& residual, const Normalised& kept,
                                        const Norm& norm) {
  check_gradients(dy, residual, kept, norm);
  if (gives_norm_again(kept.sum)) return gradients_by_device(dy, residual, kept, norm, /*with_y=*/true);
  NormGradients all = norm_gradients(dy, residual, kept, norm);
  all.y = normalise_again(kept, norm);
  return all;
}

}  // namespace weft
