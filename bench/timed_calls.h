// Timing for collective benchmarks: calls that all ranks begin together, on buffers that were just written.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "weft/comm/group.h"

namespace weft::bench {

/// Mean of `repeats` calls, each after its rank has written `buffer`, as a backward does.
inline double seconds_of(const Group& group, const at::Tensor& buffer, const std::function<void()>& call, int repeats) {
  using Clock = std::chrono::steady_clock;
  Clock::duration total{};
  for (int i = 0; i < repeats; ++i) {
    buffer.fill_(1);
    group.barrier("written").wait();
    const Clock::time_point start = Clock::now();
    call();
    total += Clock::now() - start;
  }
  return std::chrono::duration<double>(total).count() / repeats;
}

/// Number of repeats in one sample, the same on all ranks: as many calls as fit in `sample_s`.
inline int repeats_for(const Group& group, const at::Tensor& buffer, const std::function<void()>& call, double sample_s,
                       int most) {
  seconds_of(group, buffer, call, 2);
  const at::Tensor time = at::full({1}, seconds_of(group, buffer, call, 2), at::kDouble);
  group.all_reduce(time, ReduceOp::max, "time of a call").wait();
  return std::clamp(static_cast<int>(sample_s / time.item<double>()), 1, most);
}

/// Parses a list such as "2,4,8". Throws for anything else.
inline std::vector<int> numbers(const std::string& option, const char* text) {
  std::vector<int> result;
  for (const char* rest = text; *rest != '\0';) {
    char* end = nullptr;
    result.push_back(static_cast<int>(std::strtol(rest, &end, 10)));
    if (end == rest || result.back() < 1)
      throw std::runtime_error(fmt::format("{} {}: expected a list such as 2,4", option, text));
    rest = *end == ',' ? end + 1 : end;
  }
  return result;
}

}  // namespace weft::bench
