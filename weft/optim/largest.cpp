#include "weft/optim/largest.h"

#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <vector>

#include "weft/base/exact_digits.h"
#include "weft/comm/threads/parallel_for.h"
#include "weft/nn/device_kernels/device_kernels.h"
#include "weft/nn/exact_sums.h"
#include "weft/nn/kernels/largest_kernels.h"

namespace weft {

namespace {

constexpr int64_t kInfinity = 0x7f800000;  // bits of a float32

int64_t largest_in(const at::Tensor& values) {
  constexpr int64_t kGrain = int64_t{1} << 16;  // minimum elements per thread
  const auto* data = values.const_data_ptr<float>();
  std::atomic<int64_t> most = 0;
  parallel_for(values.numel(), kGrain, [&](int64_t begin, int64_t end) {
    const int64_t own = largest_magnitude(data + begin, end - begin);
    int64_t before = most.load();
    while (before < own && !most.compare_exchange_weak(before, own)) {
    }
  });
  return most;
}

int64_t largest_on_host(const at::Tensor& values) {
  constexpr int64_t kChunk = int64_t{1} << 18;  // values per chunk, if they must be converted first
  const at::Tensor flat = values.reshape({-1});
  if (flat.scalar_type() == at::kFloat) return largest_in(flat.contiguous());
  int64_t most = 0;
  for (int64_t begin = 0; begin < flat.numel(); begin += kChunk) {
    const at::Tensor wide = flat.narrow(0, begin, std::min(kChunk, flat.numel() - begin)).to(at::kFloat);
    most = std::max(most, largest_in(wide));
  }
  return most;
}

/// [1] int64 on the tensors' device.
at::Tensor largest_of_all(const std::vector<at::Tensor>& all, at::Device device) {
  const auto options = at::TensorOptions(at::kLong).device(device);
  if (device.is_cpu()) {
    int64_t most = 0;
    for (const at::Tensor& values : all) most = std::max(most, largest_on_host(values));
    return at::full({1}, most, options);
  }
  const at::Tensor most = at::zeros({1}, options);
  std::vector<at::Tensor> ranges;
  for (const at::Tensor& values : all) {
    if (values.numel() > 0) ranges.push_back(values.reshape({-1}));
  }
  raise_to_largest(ranges, most);
  return most;
}

/// The gradients that this rank owns, by group, or the changes of statistics.
std::vector<at::Tensor> owned_gradients(FlatModel& model, bool of_statistics) {
  std::vector<at::Tensor> all;
  for (int b = 0; b < model.num_blocks(); ++b) {
    const FlatBlock& flat = model.flat(b);
    for (const GroupRange& group : flat.groups) {
      if (is_trained(group.group) == of_statistics) continue;
      const GroupRange own = flat.own(group);
      if (own.begin < own.end) all.push_back(flat.owned_gradients.narrow(0, own.begin, own.end - own.begin));
    }
  }
  return all;
}

}  // namespace

int64_t largest_bits(const at::Tensor& values) {
  c10::NoGradGuard no_grad;
  return largest_of_all({values}, values.device()).item<int64_t>();
}

float magnitude_of(int64_t bits) { return std::bit_cast<float>(static_cast<int32_t>(bits)); }

bool is_finite(const at::Tensor& values) { return std::isfinite(magnitude_of(largest_bits(values))); }

at::Tensor largest_gradient(FlatModel& model) {
  c10::NoGradGuard no_grad;
  const at::Device device = model.options().device;
  const at::Tensor most = largest_of_all(owned_gradients(model, /*of_statistics=*/false), device);
  const std::vector<at::Tensor> changes = owned_gradients(model, /*of_statistics=*/true);
  if (changes.empty()) return most;
  at::Tensor change = largest_of_all(changes, device);
  change.masked_fill_(change.lt(kInfinity), 0);
  return at::maximum(most, change);
}

void mark_statistics(FlatModel& model, const at::Tensor& words) {
  c10::NoGradGuard no_grad;
  const std::vector<at::Tensor> changes = owned_gradients(model, /*of_statistics=*/true);
  if (changes.empty()) return;
  words.narrow(0, kSumDigits, 1).add_(largest_of_all(changes, words.device()).ge(kInfinity).to(at::kLong).mul_(kBadStatistics));
}

std::string first_not_finite(FlatModel& model) {
  for (const Param& param : model.params()) {
    if (param.group == ParamGroup::frozen || !model.holds(param.block)) continue;
    const FlatBlock& flat = model.flat(param.block);
    const GroupRange own = flat.own({.group = param.group, .begin = param.offset, .end = param.offset + param.numel});
    if (own.begin < own.end && !is_finite(flat.owned_gradients.narrow(0, own.begin, own.end - own.begin))) return param.name;
  }
  return {};
}

}  // namespace weft
