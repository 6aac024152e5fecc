// Ranks that are threads, each with a device, and groups of them under NCCL's rules.
#pragma once

#include <c10/core/DeviceGuard.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

#include "tests/checked_device/device.h"
#include "weft/checked_device/nccl/nccl_rules.h"

namespace weft::checked_device {

using Tensors = std::vector<at::Tensor>;
using Engine = c10::intrusive_ptr<c10d::Backend>;

/// What a rank is given: rank r has device r.
struct Rank {
  int rank, size;
  c10::intrusive_ptr<c10d::Store> store;
  std::chrono::milliseconds timeout;

  at::TensorOptions on() const { return at::TensorOptions().device(device(rank)); }
  Engine group(const std::string& name) const {
    return make_nccl_rules(c10::make_intrusive<c10d::PrefixStore>(name, store), rank, size, device(rank),
                           {.name = name, .ranks = {}, .timeout = timeout});
  }
};

/// Runs the ranks, each on its device; returns what they threw, a line each.
inline std::string run(int size, const std::function<void(const Rank&)>& body,
                       std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  device();
  const auto store = c10::make_intrusive<c10d::HashStore>();
  store->setTimeout(timeout);
  std::vector<std::string> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const c10::DeviceGuard guard(device(rank));
      errors[static_cast<size_t>(rank)] = error_of([&] { body({rank, size, store, timeout}); });
    });
  }
  std::string all;
  for (int rank = 0; rank < size; ++rank) {
    threads[static_cast<size_t>(rank)].join();
    const std::string& error = errors[static_cast<size_t>(rank)];
    if (!error.empty()) all += "rank " + std::to_string(rank) + ": " + error + "\n";
  }
  return all;
}

inline void settle(const Rank& r) { at::accelerator::synchronizeDevice(static_cast<at::DeviceIndex>(r.rank)); }

inline void expect_equal(const at::Tensor& a, const at::Tensor& b) { TORCH_CHECK(same_bits(a, b), "wrong values"); }

}  // namespace weft::checked_device
