#include "weft/program/simulate/operator_time.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "weft/program/program.h"

namespace weft {
namespace {

constexpr int kAlignment = 8;        // elements
constexpr int kMostSplits = 4;       // of a sum over processors
constexpr int64_t kQueryTile = 128;  // queries that one processor attends for
constexpr int64_t kWideHead = 128, kHalfHead = 64;

struct Tile {
  double rows, columns, efficiency;
};

std::array<Tile, 6> tiles_of(const ProductCosts& costs) {
  return {{{256, 128, 1.0},
           {128, 256, 1.0},
           {128, 128, costs.tile_128x128},
           {128, 64, costs.tile_128x64},
           {64, 128, costs.tile_128x64},
           {64, 64, costs.tile_64x64}}};
}

bool is_aligned(const OperatorWork& x) {
  return x.rows % kAlignment == 0 && x.columns % kAlignment == 0 && x.inner % kAlignment == 0;
}

double as_double(int64_t value) { return static_cast<double>(value); }

double product_seconds(const OperatorWork& x, const Hardware& hardware) {
  const ProductCosts& costs = hardware.operators->products;
  const double m = as_double(x.rows), n = as_double(x.columns), k = as_double(x.inner), batch = as_double(x.batch);
  const double processors = costs.processors, memory = hardware.memory_bytes_per_s;
  const double rate = hardware.peak_flops(x.element_bytes) * costs.efficiency * costs.sustained;
  const double written = (x.adds ? 2.0 : 1.0) * x.element_bytes * batch * m * n;
  const double moved = x.element_bytes * batch * (m * k + k * n) + written;
  double best = kFree;
  for (const Tile& tile : tiles_of(costs)) {
    for (int splits = 1; splits <= kMostSplits; splits *= 2) {
      const double waves = batch * std::ceil(m / tile.rows) * std::ceil(n / tile.columns) * splits / processors;
      const double taken = std::max(1.0, costs.whole_waves * std::ceil(waves) + (1.0 - costs.whole_waves) * waves);
      const double flops = 2.0 * tile.rows * tile.columns * (k / splits + costs.fill) * processors;
      const double sums = splits > 1 ? kFloatBytes * batch * m * n * splits / memory + costs.split_s : 0.0;
      best = std::min(best, taken * flops / (rate * tile.efficiency) + sums);
    }
  }
  const double seconds = costs.start_s + std::max(best, moved / memory) + costs.exposed_writes * written / memory;
  return is_aligned(x) ? seconds : seconds * costs.unaligned;
}

double attention_seconds(const OperatorWork& x, const Hardware& hardware) {
  const AttentionCosts& costs = hardware.operators->attention;
  const double width = x.inner >= kWideHead ? 1.0 : x.inner >= kHalfHead ? costs.width_64 : costs.narrow;
  const double keys = as_double(x.columns), length = keys / (keys + costs.half_length);
  const double rate = hardware.peak_flops(x.element_bytes) * (x.is_backward ? costs.backward : costs.forward) * width * length;
  const double tiles = as_double(x.batch * x.heads) * std::ceil(as_double(x.rows) / as_double(kQueryTile));
  const double last = 1.0 + costs.tail * hardware.operators->products.processors / tiles;
  return x.flops() / rate * last + costs.start_s;
}

/// How much faster a rank computes than with one thread.
double thread_speed(const Hardware& hardware) { return std::pow(hardware.cores.threads, hardware.cores.thread_power); }

/// Time of an operator on float32 that is no kernel of a block.
double rated(OperatorClass of, double bytes, const Hardware& hardware) {
  return rated_seconds(of, bytes, kFloatBytes, hardware.operators->rates, named(hardware)) / thread_speed(hardware);
}

}  // namespace

double memory_bound_seconds(double bytes, int launches, const Hardware& hardware) {
  const OperatorRates& rates = hardware.operators->rates;
  if (!rates.of.empty()) {
    const int times = bytes > 0.0 ? std::max(launches, 1) : launches;
    return times * rated(OperatorClass::other, bytes / std::max(times, 1), hardware);
  }
  const MemoryBoundCosts& costs = hardware.operators->memory_bound;
  return bytes / (costs.efficiency * hardware.memory_bytes_per_s) + launches * costs.start_s;
}

double update_seconds(double bytes, int launches, const Hardware& hardware) {
  const OperatorRates& rates = hardware.operators->rates;
  if (rates.of.empty()) return memory_bound_seconds(bytes, launches, hardware);
  return launches * rated(OperatorClass::update, bytes / std::max(launches, 1), hardware);
}

double operator_seconds(const OperatorWork& work, const Hardware& hardware) {
  const OperatorRates& rates = hardware.operators->rates;
  if (!rates.of.empty()) return rated_seconds(work, rates, named(hardware)) / thread_speed(hardware);
  switch (work.kind) {
    case OperatorKind::product:
      return work.flops() > 0.0 ? product_seconds(work, hardware) : 0.0;
    case OperatorKind::attention:
      return work.flops() > 0.0 ? attention_seconds(work, hardware) : 0.0;
    case OperatorKind::memory:
      break;
  }
  return memory_bound_seconds(as_double(work.bytes), 1, hardware);
}

ComputingTimes operator_times(const PassOperators& operators, const Hardware& hardware) {
  ComputingTimes times;
  for (const OperatorWork& work : operators) {
    double& sum = work.kind == OperatorKind::product     ? times.products
                  : work.kind == OperatorKind::attention ? times.attention
                                                         : times.memory_bound;
    sum += work.count * operator_seconds(work, hardware);
  }
  return times;
}

}  // namespace weft
