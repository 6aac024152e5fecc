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
void add_unfused(const SoftwareCosts& software, const OperatorWork& x, PassOperators& all) {
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
  const bool is_fused = software.fused_softmax && x.columns <= kLongestFused;
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
    case MemoryClass::channels:
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
    case MemoryClass::pool:
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

/// The device waits for a host that takes `seconds` to launch a pass.
void wait_for_launches(ComputingTimes& times, double seconds) { times.overhead += std::max(0.0, seconds - times.total()); }

/// Times of a pass: of attention apart, also where it consists of products and a softmax.
ComputingTimes times_by(const PassOperators& operators, const Hardware& hardware) {
  const SoftwareCosts& software = *hardware.software;
  ComputingTimes times = operator_times(run_by(software, operators), hardware);
  const ComputingTimes core = operator_times(run_by(software, attention_of(operators)), hardware);
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
      add_unfused(software, x, all);
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

std::array<ComputingTimes, kNumPasses> software_times(const BlockOperators& block, const Hardware& hardware) {
  const SoftwareCosts& software = *hardware.software;
  std::array<ComputingTimes, kNumPasses> times{};
  const auto at = [&times](BlockPass pass) -> ComputingTimes& { return times[static_cast<size_t>(pass)]; };
  for (int pass = 0; pass < kNumPasses; ++pass) times[pass] = times_by(block.passes[pass], hardware);
  const PassOperators& forward = block.of(BlockPass::forward);
  if (attention_of(forward).empty()) return times;  // no layer
  const ComputingTimes once = at(BlockPass::forward);
  const ComputingTimes again = {software.repeated_products * once.products, software.repeated_attention * once.attention,
                                software.repeated_memory_bound * once.memory_bound, 0.0};
  wait_for_launches(at(BlockPass::forward), software.block_launch_s);
  at(BlockPass::forward).overhead += software.block_s;
  for (const BlockPass pass : {BlockPass::backward, BlockPass::adding_backward, BlockPass::input}) {
    at(pass) += again;
    wait_for_launches(at(pass), kBackwardLaunches * software.block_launch_s);
  }
  return times;
}

bool software_overlaps(const SoftwareCosts& software, const Instruction& moves, ShardLevel level) {
  if (moves.op == Op::send) return software.exposed_messages == 0.0;
  if (moves.op == Op::receive || level == ShardLevel::parameters) return true;
  return software.overlapped_gradients;
}

}  // namespace weft
