// Device graphs: work that a device is given once, captured, and then gives itself again: one launch for all of it.
//
// A build with CUDA has those of GPUs. Programs register the graphs of a device of their own.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <map>
#include <memory>

namespace weft {

/// A captured sequence of work. Memory that it uses stays as it was, and must not be freed, while the graph lives.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  /// From now on the calling thread's work on the device, that of autograd's threads for it and that of streams which wait for
  /// it is captured, behind what the current stream has been given.
  virtual void begin() = 0;
  /// Ends the capture; all streams must have been waited for. The device has not computed anything until replay().
  virtual void end() = 0;
  /// Gives the device the work, on the current stream.
  virtual void replay() = 0;
};

/// Makes an empty graph on a device.
using MakeDeviceGraph = std::function<std::unique_ptr<DeviceGraph>(at::Device)>;

/// Registers the graphs of a device type. Thread-safe.
void register_device_graphs(at::DeviceType type, MakeDeviceGraph make);
/// Those registered for a device type; empty without.
MakeDeviceGraph device_graphs(at::DeviceType type);

/// Graphs that this build has. Defined by cuda.cpp or no_cuda.cpp, whichever is linked.
std::map<at::DeviceType, MakeDeviceGraph> built_in_graphs();

/// The device with its index: the current one if it has none.
at::Device with_index(at::Device device);

/// Whether work of the device is being captured: the host must not ask whether it is done. Thread-safe.
bool is_captured(at::Device device);

/// Until its end, work of the device is captured. The destructor of a capture that has not ended does so, and drops the graph.
class Capture {
 public:
  Capture(at::Device device, const MakeDeviceGraph& make);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  std::unique_ptr<DeviceGraph> end();

 private:
  at::Device device_;
  std::unique_ptr<DeviceGraph> graph_;
};

}  // namespace weft
