// The kernels of device_kernels.h for CUDA.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <optional>

#include "weft/base/math.h"
#include "weft/nn/device_kernels/cuda_kernels.h"
#include "weft/nn/device_kernels/cuda_launches.h"
#include "weft/nn/device_kernels/cuda_layer_launches.h"
#include "weft/nn/device_kernels/layer_operators.h"
#include "weft/nn/device_kernels/step_buffers.h"
#include "weft/nn/device_kernels/update_numbers.h"

namespace weft {

namespace {

CudaElement element_of(const at::Tensor& x) {
  switch (x.scalar_type()) {
    case at::kFloat:
      return CudaElement::float32;
    case at::kDouble:
      return CudaElement::float64;
    case at::kBFloat16:
      return CudaElement::bfloat16;
    case at::kHalf:
      return CudaElement::float16;
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "weft's device kernels take float32, float64, bfloat16 and float16, not ",
                                  x.scalar_type());
  }
}

void check(int error) { C10_CUDA_CHECK(static_cast<cudaError_t>(error)); }

/// Calls launch(element, ranges, stream) for the ranges, as many at a time as a launch takes, of one type each.
template <class Launch>
void in_launches(at::TensorList tensors, at::IntArrayRef places, at::IntArrayRef rows, const at::Tensor& result,
                 const Launch& launch) {
  const c10::cuda::CUDAGuard guard(result.device());
  void* stream = c10::cuda::getCurrentCUDAStream(result.device().index()).stream();
  CudaRanges ranges;
  for (size_t i = 0; i < tensors.size(); ++i) {
    ranges.data[ranges.count] = tensors[i].const_data_ptr();
    ranges.numel[ranges.count] = tensors[i].numel();
    ranges.before[ranges.count] = places.empty() ? 0 : static_cast<int32_t>(places[i] % kAlignElements);
    ranges.row[ranges.count] = rows.empty() ? 0 : static_cast<int32_t>(rows[i]);
    ++ranges.count;
    const bool is_last = i + 1 == tensors.size() || tensors[i + 1].scalar_type() != tensors[i].scalar_type();
    if (!is_last && ranges.count < CudaRanges::kMost) continue;
    check(launch(element_of(tensors[i]), ranges, stream));
    ranges.count = 0;
  }
}

void add_squares(at::TensorList tensors, at::IntArrayRef places, at::Tensor& words) {
  in_launches(tensors, places, {}, words, [&](CudaElement element, const CudaRanges& ranges, void* stream) {
    return cuda_add_squares(element, ranges, words.mutable_data_ptr<int64_t>(), stream);
  });
}

void add_squares_each(at::TensorList tensors, at::IntArrayRef places, at::IntArrayRef rows, at::Tensor& sums) {
  in_launches(tensors, places, rows, sums, [&](CudaElement element, const CudaRanges& ranges, void* stream) {
    return cuda_add_squares_each(element, ranges, sums.mutable_data_ptr<int64_t>(), stream);
  });
}

void raise_to_largest(at::TensorList tensors, at::Tensor& most) {
  in_launches(tensors, {}, {}, most, [&](CudaElement element, const CudaRanges& ranges, void* stream) {
    return cuda_raise_to_largest(element, ranges, most.mutable_data_ptr<int64_t>(), stream);
  });
}

void carry_words(at::Tensor& words) {
  const c10::cuda::CUDAGuard guard(words.device());
  check(cuda_carry_words(words.mutable_data_ptr<int64_t>(), c10::cuda::getCurrentCUDAStream().stream()));
}

void put_losses(at::Tensor& losses, int64_t place, const at::Tensor& sum, const std::optional<at::Tensor>& counted,
                int64_t count, double nominal) {
  const c10::cuda::CUDAGuard guard(losses.device());
  const CudaLosses all{.losses = losses.mutable_data_ptr<double>(),
                       .places = losses.size(1),
                       .place = place,
                       .sum = sum.const_data_ptr(),
                       .counted = counted ? counted->const_data_ptr<int64_t>() : nullptr,
                       .count = count,
                       .nominal = nominal};
  check(cuda_put_losses(element_of(sum), all, c10::cuda::getCurrentCUDAStream().stream()));
}

at::Tensor clamp_ids(const at::Tensor& ids, int64_t count, std::optional<int64_t> ignored, at::Tensor& found) {
  const c10::cuda::CUDAGuard guard(ids.device());
  at::Tensor safe = at::empty_like(ids);
  const CudaIds all{.ids = ids.const_data_ptr(),
                    .safe = safe.mutable_data_ptr(),
                    .found = found.mutable_data_ptr<int64_t>(),
                    .numel = ids.numel(),
                    .count = count,
                    .ignored = ignored.value_or(0),
                    .has_ignored = ignored.has_value(),
                    .is_wide = ids.scalar_type() == at::kLong};
  if (ids.numel() > 0) check(cuda_clamp_ids(all, c10::cuda::getCurrentCUDAStream().stream()));
  return safe;
}

void spoil_losses(at::Tensor& losses, const at::Tensor& found) {
  const c10::cuda::CUDAGuard guard(losses.device());
  check(cuda_spoil_losses(losses.mutable_data_ptr<double>(), losses.numel(), found.const_data_ptr<int64_t>(), found.numel(),
                          c10::cuda::getCurrentCUDAStream().stream()));
}

at::Tensor step_numbers(const at::Tensor& losses, const at::Tensor& found, at::Tensor& gate,
                        const std::optional<at::Tensor>& scale, const std::optional<at::Tensor>& rate, int64_t places,
                        int64_t votes, double all_micro_batches, double nominal_targets, double loss_scale, bool has_norm,
                        double clip, double most, double small_batches) {
  const c10::cuda::CUDAGuard guard(losses.device());
  const StepFacts facts{places, votes, all_micro_batches, nominal_targets, loss_scale, has_norm, clip, most, small_batches};
  at::Tensor numbers = at::empty({count_of_numbers(facts)}, losses.options());
  check(cuda_step_numbers(facts, step_buffers(losses, found, numbers, gate, scale, rate),
                          c10::cuda::getCurrentCUDAStream().stream()));
  return numbers;
}

at::Tensor trust_ratios(const at::Tensor& squares, const at::Tensor& decays, const at::Tensor& numbers, bool has_decay,
                        double trust, double eps, double limit) {
  const c10::cuda::CUDAGuard guard(squares.device());
  at::Tensor ratios = at::empty({decays.numel()}, decays.options().dtype(at::kFloat));
  const CudaTrust all{.squares = squares.const_data_ptr<int64_t>(),
                      .decays = decays.const_data_ptr<double>(),
                      .divisor = numbers.const_data_ptr<double>() + numbers.numel() - kDeviceNumbers,
                      .ratios = ratios.mutable_data_ptr<float>(),
                      .count = decays.numel()};
  check(cuda_trust_ratios({has_decay, trust, eps, limit}, all, c10::cuda::getCurrentCUDAStream().stream()));
  return ratios;
}

at::Tensor corrections_of(const at::Tensor& rate, int64_t later, double beta1, double beta2) {
  const c10::cuda::CUDAGuard guard(rate.device());
  at::Tensor corrections = at::empty({2}, rate.options());
  check(cuda_bias_corrections(rate.const_data_ptr<float>(), later, beta1, beta2, corrections.mutable_data_ptr<float>(),
                              c10::cuda::getCurrentCUDAStream().stream()));
  return corrections;
}

at::Tensor numbers_of_factored(const at::Tensor& rate, const std::optional<at::Tensor>& lr, double known_lr, int64_t later,
                               const at::Tensor& squares, double numel, double beta2_decay, double min_rms, double decay) {
  const c10::cuda::CUDAGuard guard(rate.device());
  at::Tensor numbers = at::empty({kFactoredNumbers}, rate.options().dtype(at::kDouble));
  const FactoredBuffers memory{.rate = rate.const_data_ptr<float>(),
                               .lr = lr ? lr->const_data_ptr<float>() : nullptr,
                               .squares = squares.const_data_ptr<int64_t>(),
                               .numbers = numbers.mutable_data_ptr<double>()};
  check(cuda_factored_numbers({numel, beta2_decay, min_rms, decay}, known_lr, later, memory,
                              c10::cuda::getCurrentCUDAStream().stream()));
  return numbers;
}

void subtract_scaled(at::Tensor& weights, const at::Tensor& values, const std::optional<at::Tensor>& divisors,
                     const at::Tensor& rate) {
  if (weights.numel() == 0) return;
  const c10::cuda::CUDAGuard guard(weights.device());
  check(cuda_subtract_scaled(weights.mutable_data_ptr<float>(), values.const_data_ptr<float>(),
                             divisors ? divisors->const_data_ptr<float>() : nullptr, weights.numel(),
                             rate.const_data_ptr<float>(), c10::cuda::getCurrentCUDAStream().stream()));
}

void scale_parts(at::Tensor& values, at::IntArrayRef begins, at::IntArrayRef ends, at::IntArrayRef rows,
                 const at::Tensor& factors) {
  const c10::cuda::CUDAGuard guard(values.device());
  CudaParts parts;
  for (size_t i = 0; i < begins.size(); ++i) {
    parts.begin[parts.count] = begins[i];
    parts.end[parts.count] = ends[i];
    parts.row[parts.count] = static_cast<int32_t>(rows[i]);
    if (++parts.count < CudaParts::kMost && i + 1 < begins.size()) continue;
    check(cuda_scale_parts(values.mutable_data_ptr<float>(), parts, factors.const_data_ptr<float>(),
                           c10::cuda::getCurrentCUDAStream().stream()));
    parts.count = 0;
  }
}

at::Tensor drop(const at::Tensor& x, double scale, int64_t threshold, bool all, int64_t seed, int64_t stream,
                at::IntArrayRef firsts, at::IntArrayRef numels, const std::optional<at::Tensor>& place, int64_t per_sample) {
  const c10::cuda::CUDAGuard guard(x.device());
  void* on = c10::cuda::getCurrentCUDAStream().stream();
  at::Tensor y = at::empty_like(x);
  const CudaDropped dropped{.x = x.const_data_ptr(),
                            .y = y.mutable_data_ptr(),
                            .seed = static_cast<uint64_t>(seed),
                            .stream = static_cast<uint64_t>(stream),
                            .place = place ? place->const_data_ptr<int64_t>() : nullptr,
                            .per_sample = per_sample,
                            .threshold = static_cast<uint32_t>(threshold),
                            .all = all,
                            .scale = scale};
  CudaRuns runs;
  for (size_t i = 0; i < firsts.size(); ++i) {
    runs.begin[runs.count] = runs.end;
    runs.first[runs.count] = firsts[i];
    runs.end += numels[i];
    if (++runs.count < CudaRuns::kMost && i + 1 < firsts.size()) continue;
    check(cuda_drop(element_of(x), dropped, runs, on));
    runs.count = 0;
  }
  return y;
}

void draw(at::Tensor& slice, bool is_normal, int64_t seed, int64_t stream, int64_t first, double shift, double scale) {
  if (slice.numel() == 0) return;
  const c10::cuda::CUDAGuard guard(slice.device());
  const CudaDrawn drawn{.to = slice.mutable_data_ptr(),
                        .numel = slice.numel(),
                        .first = first,
                        .seed = static_cast<uint64_t>(seed),
                        .stream = static_cast<uint64_t>(stream),
                        .is_normal = is_normal,
                        .shift = static_cast<float>(shift),
                        .scale = static_cast<float>(scale)};
  check(cuda_draw(element_of(slice), drawn, c10::cuda::getCurrentCUDAStream().stream()));
}

/// The launch of a kernel of layers.
template <class Memory, int (*kKernel)(CudaElement, const Memory&, CudaStream)>
void launch_layer(const at::Tensor& x, const Memory& memory) {
  const c10::cuda::CUDAGuard guard(x.device());
  check(kKernel(element_of(x), memory, c10::cuda::getCurrentCUDAStream().stream()));
}

constexpr LayerLaunches kLayers = {
    .norm = launch_layer<NormMemory, cuda_norm>,
    .norm_again = launch_layer<NormMemory, cuda_norm_again>,
    .norm_gradients = launch_layer<NormMemory, cuda_norm_gradients>,
    .activation = launch_layer<ActivationMemory, cuda_activation>,
    .activation_gradients = launch_layer<ActivationMemory, cuda_activation_gradients>,
    .turn = launch_layer<RotaryMemory, cuda_turn>,
    .class_losses = launch_layer<LossMemory, cuda_class_losses>,
    .class_loss_gradient = launch_layer<LossMemory, cuda_class_loss_gradient>,
};

}  // namespace

TORCH_LIBRARY_IMPL(weft, CUDA, operators) {
  operators.impl("add_squares", add_squares);
  operators.impl("add_squares_each", add_squares_each);
  operators.impl("trust_ratios", trust_ratios);
  operators.impl("bias_corrections", corrections_of);
  operators.impl("factored_numbers", numbers_of_factored);
  operators.impl("subtract_scaled", subtract_scaled);
  operators.impl("scale_parts", scale_parts);
  operators.impl("raise_to_largest", raise_to_largest);
  operators.impl("carry_words", carry_words);
  operators.impl("put_losses", put_losses);
  operators.impl("clamp_ids", clamp_ids);
  operators.impl("spoil_losses", spoil_losses);
  operators.impl("step_numbers", step_numbers);
  operators.impl("drop", drop);
  operators.impl("draw", draw);
  implement_layer_operators(operators);
}

const LayerLaunches* cuda_layer_launches() { return &kLayers; }

void load_cuda_kernels() {}

}  // namespace weft
