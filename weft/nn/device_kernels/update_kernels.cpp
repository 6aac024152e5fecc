#include "weft/nn/device_kernels/update_kernels.h"

#include <ATen/Dispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "weft/base/math.h"
#include "weft/nn/device_kernels/cuda_kernels.h"
#include "weft/nn/device_kernels/element_functions.h"
#include "weft/nn/device_kernels/shuffled.h"
#include "weft/nn/device_kernels/step_numbers.h"

namespace weft {

namespace {

void add_squares_each_on_cpu(at::TensorList ranges, at::IntArrayRef places, at::IntArrayRef rows, at::Tensor& sums) {
  for (size_t i = 0; i < ranges.size(); ++i) {
    std::array<int64_t, kSumWords> sum{};
    const Runs runs{.numel = ranges[i].numel(), .before = places[i] % kAlignElements, .run = kAlignElements};
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, ranges[i].scalar_type(), "weft::add_squares_each", [&] {
      const auto* data = ranges[i].const_data_ptr<scalar_t>();
      in_shuffled_order(runs.count(), [&](int64_t run) {
        add_digits(squares_of_run(data + runs.begin(run), runs.end(run) - runs.begin(run)), sum.data());
      });
    });
    carry_digits(sum.data());
    auto* to = sums.mutable_data_ptr<int64_t>() + rows[i] * kSumWords;
    for (int word = 0; word < kSumWords; ++word) to[word] += sum[static_cast<size_t>(word)];
  }
}

at::Tensor trust_ratios_on_cpu(const at::Tensor& squares, const at::Tensor& decays, const at::Tensor& numbers, bool has_decay,
                               double trust, double eps, double limit) {
  at::Tensor ratios = at::empty({decays.numel()}, decays.options().dtype(at::kFloat));
  const TrustRule rule{has_decay, trust, eps, limit};
  const double divisor = numbers.const_data_ptr<double>()[numbers.numel() - kDeviceNumbers];
  in_shuffled_order(decays.numel(), [&](int64_t i) {
    ratios.mutable_data_ptr<float>()[i] =
        ratio_or_one(rule, squares.const_data_ptr<int64_t>() + 2 * i * kSumWords, decays.const_data_ptr<double>()[i], divisor);
  });
  return ratios;
}

at::Tensor bias_corrections_on_cpu(const at::Tensor& rate, int64_t later, double beta1, double beta2) {
  at::Tensor corrections = at::empty({2}, rate.options());
  put_corrections(rate.const_data_ptr<float>(), later, beta1, beta2, corrections.mutable_data_ptr<float>());
  return corrections;
}

at::Tensor factored_numbers_on_cpu(const at::Tensor& rate, const std::optional<at::Tensor>& lr, double known_lr, int64_t later,
                                   const at::Tensor& squares, double numel, double beta2_decay, double min_rms, double decay) {
  at::Tensor numbers = at::empty({kFactoredNumbers}, rate.options().dtype(at::kDouble));
  put_factored_numbers({numel, beta2_decay, min_rms, decay}, known_lr, later,
                       {.rate = rate.const_data_ptr<float>(),
                        .lr = lr ? lr->const_data_ptr<float>() : nullptr,
                        .squares = squares.const_data_ptr<int64_t>(),
                        .numbers = numbers.mutable_data_ptr<double>()});
  return numbers;
}

void subtract_scaled_on_cpu(at::Tensor& weights, const at::Tensor& values, const std::optional<at::Tensor>& divisors,
                            const at::Tensor& rate) {
  const double by = *rate.const_data_ptr<float>();
  divisors ? weights.addcdiv_(values, *divisors, -by) : weights.sub_(values, by);
}

void scale_parts_on_cpu(at::Tensor& values, at::IntArrayRef begins, at::IntArrayRef ends, at::IntArrayRef rows,
                        const at::Tensor& factors) {
  auto* data = values.mutable_data_ptr<float>();
  for (size_t part = 0; part < begins.size(); ++part) {
    const float factor = factors.const_data_ptr<float>()[rows[part]];
    in_shuffled_order(ends[part] - begins[part], [&](int64_t i) { data[begins[part] + i] *= factor; });
  }
}

std::optional<at::Tensor> or_none(const at::Tensor& x) { return x.defined() ? std::optional(x) : std::nullopt; }

template <class Signature>
auto update_operator(const char* name) {
  load_cuda_kernels();
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(weft, operators) {
  operators.def("add_squares_each(Tensor[] ranges, int[] places, int[] rows, Tensor(a!) sums) -> ()");
  operators.def(
      "trust_ratios(Tensor squares, Tensor decays, Tensor numbers, bool has_decay, float trust, float eps, float limit) -> "
      "Tensor");
  operators.def("bias_corrections(Tensor rate, int later, float beta1, float beta2) -> Tensor");
  operators.def(
      "factored_numbers(Tensor rate, Tensor? lr, float known_lr, int later, Tensor squares, float numel, float beta2_decay, "
      "float min_rms, float decay) -> Tensor");
  operators.def("subtract_scaled(Tensor(a!) weights, Tensor values, Tensor? divisors, Tensor rate) -> ()");
  operators.def("scale_parts(Tensor(a!) values, int[] begins, int[] ends, int[] rows, Tensor factors) -> ()");
}

TORCH_LIBRARY_IMPL(weft, CPU, operators) {
  operators.impl("add_squares_each", add_squares_each_on_cpu);
  operators.impl("trust_ratios", trust_ratios_on_cpu);
  operators.impl("bias_corrections", bias_corrections_on_cpu);
  operators.impl("factored_numbers", factored_numbers_on_cpu);
  operators.impl("subtract_scaled", subtract_scaled_on_cpu);
  operators.impl("scale_parts", scale_parts_on_cpu);
}

void add_squares_each(at::TensorList ranges, at::IntArrayRef places, at::IntArrayRef rows, const at::Tensor& sums) {
  using Signature = void(at::TensorList, at::IntArrayRef, at::IntArrayRef, at::Tensor&);
  static const auto run = update_operator<Signature>("weft::add_squares_each");
  at::Tensor to = sums;
  if (!ranges.empty()) run.call(ranges, places, rows, to);
}

at::Tensor trust_ratios(const TrustRule& rule, const at::Tensor& squares, const at::Tensor& decays, const at::Tensor& numbers) {
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, bool, double, double, double);
  static const auto run = update_operator<Signature>("weft::trust_ratios");
  return run.call(squares, decays, numbers, rule.has_decay, rule.trust, rule.eps, rule.limit);
}

at::Tensor bias_corrections_at(const at::Tensor& rate, int64_t later, double beta1, double beta2) {
  static const auto run = update_operator<at::Tensor(const at::Tensor&, int64_t, double, double)>("weft::bias_corrections");
  return run.call(rate, later, beta1, beta2);
}

at::Tensor factored_numbers_at(const RateThere& at, const FactoredRule& rule, const at::Tensor& squares) {
  using Signature = at::Tensor(const at::Tensor&, const std::optional<at::Tensor>&, double, int64_t, const at::Tensor&, double,
                               double, double, double);
  static const auto run = update_operator<Signature>("weft::factored_numbers");
  return run.call(at.step, or_none(at.lr), at.known_lr, at.later, squares, rule.numel, rule.beta2_decay, rule.min_rms,
                  rule.decay);
}

void subtract_scaled(const at::Tensor& weights, const at::Tensor& values, const at::Tensor& divisors, const at::Tensor& rate) {
  using Signature = void(at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, const at::Tensor&);
  static const auto run = update_operator<Signature>("weft::subtract_scaled");
  at::Tensor to = weights;
  run.call(to, values, or_none(divisors), rate);
}

void scale_parts(const at::Tensor& values, c10::ArrayRef<ScaledPart> parts, const at::Tensor& factors) {
  using Signature = void(at::Tensor&, at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, const at::Tensor&);
  static const auto run = update_operator<Signature>("weft::scale_parts");
  std::vector<int64_t> begins, ends, rows;
  for (const ScaledPart& part : parts) {
    begins.push_back(part.begin);
    ends.push_back(part.end);
    rows.push_back(part.row);
  }
  at::Tensor to = values;
  if (!parts.empty()) run.call(to, begins, ends, rows, factors);
}

}  // namespace weft
