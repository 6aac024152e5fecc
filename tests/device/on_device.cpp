#include "tests/device/on_device.h"

#include <ATen/DeviceAccelerator.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "tests/device/recorded_graph.h"
#include "weft/base/environment.h"
#include "weft/base/error.h"
#include "weft/checked_device.h"
#include "weft/comm/c10d/device_engines.h"
#include "weft/comm/c10d/operations.h"

namespace weft {

namespace {

void install_once() {
  static const bool installed = [] {
    checked_device::install({.devices = 4, .address_bytes = size_t{1} << 38});
    const auto connect = [](const DeviceEngineOptions& o) {
      if (at::accelerator::getDeviceIndex() != o.device.index()) throw Error("the engine's device is not current");
      auto engine = checked_device::make_nccl_rules(
          o.store, o.rank, o.size, o.device, {.name = o.name, .ranks = o.ranks, .timeout = o.timeout, .starts = &call_mutex()});
      engine->eagerConnectSingleDevice(o.device);
      return engine;
    };
    register_device_engine(at::kPrivateUse1, {connect});
    register_device_graphs(at::kPrivateUse1, make_recorded_graph);
    return true;
  }();
  (void)installed;
}

std::string device_name() { return env_string("WEFT_TEST_DEVICE").value_or(""); }

/// Before the first backward of any test, which starts autograd's threads for the devices that there are.
class Installed : public testing::Environment {
  void SetUp() override {
    if (is_checked_device()) install_once();
  }
};
[[maybe_unused]] const testing::Environment* const kInstalled = testing::AddGlobalTestEnvironment(new Installed);

}  // namespace

bool is_checked_device() { return device_name().empty(); }

bool has_graphs(int ranks) { return is_checked_device() || (ranks == 1 && device_name() != "cpu"); }

Strategy on_device(Strategy strategy) {
  const std::string name = device_name();
  strategy.operators = name == "cpu";
  strategy.backend = BackendKind::shm;
  if (name == "cpu") return strategy;
  if (name.empty()) install_once();
  const at::DeviceType type = name.empty() ? at::kPrivateUse1 : at::Device(name).type();
  const int count = at::accelerator::deviceCount();
  if (count == 0) throw std::runtime_error("WEFT_TEST_DEVICE=" + name + ": LibTorch sees no such device");
  if (name.empty()) strategy.backend = BackendKind::automatic;  // NCCL takes a process per GPU, not a thread
  strategy.device = [type, count](int rank) { return at::Device(type, static_cast<at::DeviceIndex>(rank % count)); };
  return strategy;
}

std::string said_of_device() {
  std::string all;
  for (const std::string& line : checked_device::take_violations()) all += line + "\n";
  return all;
}

}  // namespace weft
