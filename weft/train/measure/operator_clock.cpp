#include "weft/train/measure/operator_clock.h"

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "weft/base/median.h"

namespace weft {
namespace {

constexpr int64_t kOtherBytes = 8 << 20;
constexpr int kLeastCalls = 3, kDeviceCalls = 20;  // a device's calls are timed together
constexpr double kTurn_s = 1.5e-3;

}  // namespace

double clock_seconds(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

OperatorClock::OperatorClock(at::Device device, int turns)
    : device_(device), turns_(turns), is_one_thread_(device.is_cpu() && at::get_num_threads() == 1) {
  if (!device.is_cpu()) return;
  others_ = at::ones({kOtherBytes / 4}, at::TensorOptions(at::kFloat));
  reading_s_ = seconds([] {});
}

double OperatorClock::now() const { return clock_seconds(is_one_thread_ ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC); }

// Operators of a device run in order: a value made after them is there once they are done.
void OperatorClock::wait() const {
  if (!device_.is_cpu()) at::zeros({1}, at::TensorOptions(at::kFloat).device(device_)).item<float>();
}

void OperatorClock::use_caches() const {
  if (others_.defined()) others_.sum();
}

double OperatorClock::timed(const std::function<void()>& call, int calls) const {
  wait();
  use_caches();
  const double start = now();
  for (int i = 0; i < calls; ++i) call();
  wait();
  return (now() - start) / calls;
}

double OperatorClock::seconds(const std::function<void()>& call) const {
  call();
  const int at_once = device_.is_cpu() ? 1 : kDeviceCalls;
  const double once = timed(call, at_once);
  const double wanted = turns_ * kTurn_s / std::max(once * at_once, 1e-9);
  const int calls = static_cast<int>(std::clamp<double>(wanted, kLeastCalls, std::max(kLeastCalls, 3 * turns_)));
  std::vector<double> times;
  times.reserve(static_cast<size_t>(calls));
  for (int i = 0; i < calls; ++i) times.push_back(timed(call, at_once));
  return std::max(median(std::move(times)) - reading_s_, 1e-9);
}

}  // namespace weft
