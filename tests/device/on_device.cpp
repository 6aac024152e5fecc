#include "tests/device/on_device.h"

#include <ATen/DeviceAccelerator.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "weft/base/error.h"
#include "weft/checked_device.h"
#include "weft/comm/c10d/device_engines.h"
#include "weft/comm/c10d/operations.h"

namespace weft {

namespace {

void install_once() {
  static const bool installed = [] {
    checked_device::install({.devices = 4, .address_bytes = size_t{1} << 38});
    register_device_engine(at::kPrivateUse1, [](const DeviceEngineOptions& o) {
      if (at::accelerator::getDeviceIndex() != o.device.index()) throw Error("the engine's device is not current");
      auto engine = checked_device::make_nccl_rules(
          o.store, o.rank, o.size, o.device, {.name = o.name, .ranks = o.ranks, .timeout = o.timeout, .starts = &call_mutex()});
      engine->eagerConnectSingleDevice(o.device);
      return engine;
    });
    return true;
  }();
  (void)installed;
}

}  // namespace

Strategy on_device(Strategy strategy) {
  install_once();
  strategy.backend = BackendKind::automatic;
  strategy.operators = false;
  strategy.device = [](int rank) { return at::Device(at::kPrivateUse1, static_cast<at::DeviceIndex>(rank)); };
  return strategy;
}

std::string said_of_device() {
  std::string all;
  for (const std::string& line : checked_device::take_violations()) all += line + "\n";
  return all;
}

}  // namespace weft
