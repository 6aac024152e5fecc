#include "weft/train/measure/calibrate.h"

#include <ATen/Parallel.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "weft/base/cores.h"
#include "weft/base/target_device.h"
#include "weft/comm/mesh.h"
#include "weft/nn/functional/gelu.h"
#include "weft/nn/functional/matmul.h"
#include "weft/nn/target_scope.h"
#include "weft/train/measure/block_samples.h"
#include "weft/train/measure/link_times.h"
#include "weft/train/measure/memory_of_rank.h"
#include "weft/train/measure/operator_clock.h"
#include "weft/train/measure/operator_samples.h"

namespace weft {
namespace {

/// The samples with the mean time of the ranks on which they are not noise, which must be at least half.
std::vector<OperatorSample> measured(const Group& all, at::Device device, int turns) {
  std::vector<OperatorSample> samples = measure_operators(device, turns, [&all] { all.barrier("calibrate").wait(); });
  std::vector<double> seconds, known;
  for (const OperatorSample& sample : samples) {
    seconds.push_back(sample.seconds);
    known.push_back(sample.seconds > 0.0 ? 1.0 : 0.0);
  }
  seconds = mean_over_ranks(std::move(seconds), all, device);
  known = mean_over_ranks(std::move(known), all, device);
  std::vector<OperatorSample> kept;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (known[i] < 0.5) continue;
    kept.push_back(samples[i]);
    kept.back().seconds = seconds[i] / known[i];
  }
  return kept;
}

/// The most operations per second of a product.
double most_flops(const std::vector<OperatorSample>& samples, int element_bytes) {
  double most = 1.0;
  for (const OperatorSample& sample : samples) {
    if (sample.of == OperatorClass::product && sample.element_bytes == element_bytes) {
      most = std::max(most, sample.load.work / sample.seconds);
    }
  }
  return four_digits(most);
}

void round_rates(OperatorRates& rates) {
  for (OperatorRate& rate : rates.of) {
    for (double* value : {&rate.start_s, &rate.work_s, &rate.byte_s, &rate.far_byte_s, &rate.extra_s})
      *value = four_digits(*value);
  }
}

/// Bytes read and written per second by all ranks at once.
double copy_rate(const Group& all, at::Device device) {
  constexpr int64_t kBytes = 64 << 20;
  const at::Tensor from = at::zeros({kBytes}, at::TensorOptions(at::kByte).device(device)), to = at::empty_like(from);
  return 2.0 * kBytes / time_of(all, [&] {
           to.copy_(from);
           if (!device.is_cpu()) to[0].item<uint8_t>();
         });
}

/// By which power of their number threads of one rank compute faster than one: of a product and two memory-bound operators,
/// while the host's other ranks wait.
double thread_power(const World& world, const Group& all, at::Device device, int turns) {
  const int threads = at::get_num_threads(), cores = available_cores();
  all.barrier("calibrate").wait();
  double power = 0.0;
  if (world.local_rank() == 0 && cores > 1) {
    const at::Tensor x = at::ones({2048, 768}), weight = at::ones({768, 768}), y = at::empty({2048, 768});
    const std::function<void()> calls[] = {[&] { multiply(y, x, weight); }, [&] { gelu_value(x); }, [&] { at::add(x, y); }};
    std::vector<double> one;
    at::set_num_threads(cores);
    const OperatorClock clock(device, turns);  // wall time, of one thread too
    at::set_num_threads(1);
    for (const auto& call : calls) one.push_back(clock.seconds(call));
    at::set_num_threads(cores);
    for (size_t i = 0; i < one.size(); ++i) power += std::log(one[i] / clock.seconds(calls[i]));
    power /= std::log(cores) * static_cast<double>(one.size());
    at::set_num_threads(threads);
  }
  all.barrier("calibrate").wait();
  const std::vector<double> sums = mean_over_ranks({power, world.local_rank() == 0 ? 1.0 : 0.0}, all, device);
  return cores > 1 ? four_digits(std::clamp(sums[0] / sums[1], 0.0, 1.0)) : 1.0;
}

/// Part of a core that threads other than the caller's take while all-reduces cross hosts.
double network_share(const Group& all) {
  constexpr int64_t kNumel = 1 << 20;
  constexpr int kCalls = 4;
  const at::Tensor buffer = at::zeros({kNumel});
  all.all_reduce(buffer, ReduceOp::sum, "calibrate").wait();
  const double wall = clock_seconds(CLOCK_MONOTONIC), process = clock_seconds(CLOCK_PROCESS_CPUTIME_ID),
               own = clock_seconds(CLOCK_THREAD_CPUTIME_ID);
  for (int i = 0; i < kCalls; ++i) all.all_reduce(buffer, ReduceOp::sum, "calibrate").wait();
  const double others = (clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - process) - (clock_seconds(CLOCK_THREAD_CPUTIME_ID) - own);
  return mean_over_ranks({others / (clock_seconds(CLOCK_MONOTONIC) - wall)}, all, at::kCPU)[0];
}

HostCores measure_cores(const World& world, const Group& all, at::Device device, int turns) {
  if (!device.is_cpu()) return {};
  HostCores cores{.per_host = available_cores(), .thread_power = thread_power(world, all, device, turns)};
  if (world.local_size() < world.size()) cores.network_share = network_share(all);
  return cores;
}

}  // namespace

Calibration calibrate(const World& world, const GroupOptions& options, int turns) {
  const at::Device device = options.device;
  const Mesh mesh(world, {{"all", world.size()}});
  const Group all = mesh.group(mesh.axis("all"), options);
  const std::vector<OperatorSample> samples = measured(all, device, turns);
  Calibration result{.hardware = {.name = "measured by weft calibrate",
                                  .kind = std::string(kTargetDevices.of(target_of(device))),
                                  .flops = most_flops(samples, 4),
                                  .narrow_flops = most_flops(samples, 2),
                                  .overlap = !device.is_cpu()},
                     .errors = {}};
  const int threads = at::get_num_threads();
  OperatorRates rates = fit_rates(samples, &result.errors);
  result.hardware.operators = OperatorCosts{.rates = rates};
  const StepOverheads overheads = fit_overheads(measure_blocks(world, result.hardware, threads, options.timeout));
  rates = with_overheads(std::move(rates), overheads);
  result.hardware.launch_s = four_digits(overheads.instruction_s);
  result.hardware.memory_bytes = memory_of_rank(world, device);
  result.hardware.memory_bytes_per_s = mean_over_ranks({copy_rate(all, device)}, all, device)[0];
  measure_links(result.hardware, world, options);
  result.hardware.cores = measure_cores(world, all, device, turns);
  if (device.is_cpu()) rates = rates_of_one_thread(std::move(rates), threads, result.hardware.cores.thread_power);
  round_rates(rates);
  result.hardware.operators->rates = std::move(rates);
  check_hardware(result.hardware);
  return result;
}

}  // namespace weft
