// Device engines: the c10d backends that move tensors of devices other than the CPU, one per device type.
//
// A build with CUDA has NCCL for GPUs. Programs register the engine of a device of their own before they create groups.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace weft {

/// What an engine needs to connect the ranks of a group.
struct DeviceEngineOptions {
  c10::intrusive_ptr<c10d::Store> store;  ///< of the group's ranks alone
  int rank = 0;                           ///< this rank's position in the group
  int size = 1;
  at::Device device = at::kCPU;       ///< of this rank's tensors, with its index
  std::chrono::milliseconds timeout;  ///< for connecting, and for each call
  std::string name;                   ///< of the group, for errors: "dp"
  std::vector<int> ranks;             ///< world ranks of the group, in its order
};

/// Connects the group's ranks; each calls it once, with its device current. The engine runs each call on a stream of its own,
/// after the work on the caller's current stream; Work::wait() makes the current stream wait, not the host; abort(), from any
/// thread, ends calls in flight. It and shutdown() may be called with another device current. May throw c10::Error, or
/// InputError.
using DeviceEngineFactory = std::function<c10::intrusive_ptr<c10d::Backend>(const DeviceEngineOptions&)>;

/// An engine of a device type.
struct DeviceEngine {
  DeviceEngineFactory connect;
  /// Called before the ranks meet, with the group's name and the rank's device; throws InputError if the engine cannot connect
  /// in this process, as connecting would leave other ranks waiting.
  std::function<void(const std::string& group, at::Device device)> check = {};
};

/// Registers the engine of a device type. The last registration of a type counts, for groups created later. Thread-safe.
void register_device_engine(at::DeviceType type, DeviceEngine engine);
/// Returns the engine registered for a device type; without one, its functions are empty.
DeviceEngine device_engine(at::DeviceType type);

/// Engines that this build has. Defined by nccl.cpp or no_nccl.cpp, whichever is linked.
std::map<at::DeviceType, DeviceEngine> built_in_engines();

}  // namespace weft
