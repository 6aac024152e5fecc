#include "weft/program/simulate/software.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace weft {
namespace {

// Bytes per score of a softmax with scale, mask and dropout: one kernel up to 2 048 keys, several beyond (Megatron-LM,
// megatron/fused_kernels).
constexpr int64_t kLongestFused = 2048;
constexpr double kFusedForward = 9.0, kFusedBackward = 13.0, kForward = 23.0, kBackward = 33.0;
constexpr int kBackwardLaunches = 2;  // per launch of forward

/// Products of scores and values, without a mask, and the softmax between them.
void add_unfused(const OperatorWork& x, PassOperators& all) {
  OperatorWork scores{.kind = OperatorKind::product,
                      .element_bytes = x.element_bytes,
                      .batch = x.batch * x.heads,
                      .rows = x.rows,
                      .columns = x.columns,
                      .inner = x.inner,
                      .count = x.count};
  OperatorWork values = scores;
  std::swap(values.columns, values.inner);
  OperatorWork keys = values;  // gradients of keys and values: [keys, queries] x [queries, head width]
  std::swap(keys.rows, keys.inner);
  if (x.is_backward) keys.count *= 2;
  for (const OperatorWork& product : {scores, values}) add_operator(all, product);
  if (x.is_backward) add_operator(all, keys);
  const bool is_fused = x.columns <= kLongestFused;
  const double bytes = x.is_backward ? (is_fused ? kFusedBackward : kBackward) : (is_fused ? kFusedForward : kForward);
  const int64_t number = scores.batch * x.rows * x.columns;
  add_operator(all, {.is_backward = x.is_backward,
                     .element_bytes = x.element_bytes,
                     .bytes = std::llround(bytes * static_cast<double>(number)),
                     .elements = number,
                     .count = x.count});
}

/// Bytes per element; below 0: the software has no such operator.
double bytes_per_element(const SoftwareCosts& software, const OperatorWork& x) {
  switch (x.of) {
    case MemoryClass::norm:
      return x.is_backward ? software.norm_backward_bytes : software.norm_bytes;
    case MemoryClass::activation:
      return x.is_backward ? software.activation_backward_bytes : software.activation_bytes;
    case MemoryClass::rotary:
      return software.rotary_bytes;
    case MemoryClass::loss:
      return software.loss_bytes / 2.0;
    case MemoryClass::embedding:
      return static_cast<double>(x.bytes) / static_cast<double>(std::max<int64_t>(x.elements, 1)) / software.traffic_factor;
    case MemoryClass::dropout:
    case MemoryClass::other:
      break;
  }
  return -1.0;
}

PassOperators attention_of(const PassOperators& operators) {
  PassOperators some;
  std::copy_if(operators.begin(), operators.end(), std::back_inserter(some),
               [](const OperatorWork& x) { return x.kind == OperatorKind::attention; });
  return some;
}

/// Times of a pass: of attention apart, also where it consists of products and a softmax.
OperatorTimes times_by(const PassOperators& operators, const Hardware& hardware) {
  const SoftwareCosts& software = *hardware.software;
  OperatorTimes times = operator_times(run_by(software, operators), hardware);
  const OperatorTimes core = operator_times(run_by(software, attention_of(operators)), hardware);
  times.products -= core.products;
  times.memory_bound -= core.memory_bound;
  times.attention = software.fused_attention ? core.attention / software.attention_rate : core.total();
  return times;
}

}  // namespace

PassOperators run_by(const SoftwareCosts& software, const PassOperators& operators) {
  PassOperators all;
  for (const OperatorWork& x : operators) {
    if (x.kind == OperatorKind::product || (x.kind == OperatorKind::attention && software.fused_attention)) {
      add_operator(all, x);
    } else if (x.kind == OperatorKind::attention) {
      add_unfused(x, all);
    } else if (const double bytes = bytes_per_element(software, x); bytes >= 0.0) {
      OperatorWork other = x;
      other.bytes = std::llround(bytes * software.traffic_factor * static_cast<double>(x.elements));
      add_operator(all, other);
    }
  }
  return all;
}

double loss_bytes(const SoftwareCosts& software, const PassOperators& operators) {
  int64_t logits = 0;
  for (const OperatorWork& x : operators) logits = std::max(logits, x.elements);
  return software.loss_bytes * software.traffic_factor * static_cast<double>(logits);
}

std::array<double, kNumPasses> software_seconds(const BlockOperators& block, const Hardware& hardware) {
  const SoftwareCosts& software = *hardware.software;
  std::array<double, kNumPasses> seconds{};
  for (int pass = 0; pass < kNumPasses; ++pass) seconds[pass] = times_by(block.passes[pass], hardware).total();
  const PassOperators& forward = block.of(BlockPass::forward);
  if (attention_of(forward).empty()) return seconds;  // no layer
  const OperatorTimes once = times_by(forward, hardware);
  const double again = software.repeated_products * once.products + software.repeated_attention * once.attention +
                       software.repeated_memory_bound * once.memory_bound;
  double& of_forward = seconds[static_cast<size_t>(BlockPass::forward)];
  of_forward = std::max(of_forward, software.block_launch_s) + software.block_s;
  for (const BlockPass pass : {BlockPass::backward, BlockPass::adding_backward, BlockPass::input}) {
    double& of_backward = seconds[static_cast<size_t>(pass)];
    of_backward = std::max(of_backward + again, kBackwardLaunches * software.block_launch_s);
  }
  return seconds;
}

}  // namespace weft
