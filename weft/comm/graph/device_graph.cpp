#include "weft/comm/graph/device_graph.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <mutex>
#include <unordered_set>
#include <utility>

namespace weft {

namespace {

struct Known {
  std::mutex mutex;
  std::map<at::DeviceType, MakeDeviceGraph> graphs = built_in_graphs();
  std::unordered_set<at::Device> captured;
};

Known& known() {
  static Known one;
  return one;
}

void note(at::Device device, bool is_captured) {
  const at::Device own = with_index(device);
  const std::lock_guard lock(known().mutex);
  is_captured ? (void)known().captured.insert(own) : (void)known().captured.erase(own);
}

}  // namespace

void register_device_graphs(at::DeviceType type, MakeDeviceGraph make) {
  const std::lock_guard lock(known().mutex);
  known().graphs[type] = std::move(make);
}

MakeDeviceGraph device_graphs(at::DeviceType type) {
  const std::lock_guard lock(known().mutex);
  const auto found = known().graphs.find(type);
  return found == known().graphs.end() ? MakeDeviceGraph() : found->second;
}

at::Device with_index(at::Device device) {
  if (device.has_index()) return device;
  return c10::impl::VirtualGuardImpl(device.type()).getDevice();
}

bool is_captured(at::Device device) {
  if (device.is_cpu()) return false;
  const at::Device own = with_index(device);
  const std::lock_guard lock(known().mutex);
  return known().captured.count(own) > 0;
}

Capture::Capture(at::Device device, const MakeDeviceGraph& make) : device_(device), graph_(make(device)) {
  graph_->begin();
  note(device_, true);
}

Capture::~Capture() {
  if (!graph_) return;
  try {
    end();
  } catch (const std::exception&) {  // what ended the capture says more
  }
}

std::unique_ptr<DeviceGraph> Capture::end() {
  note(device_, false);
  std::unique_ptr<DeviceGraph> graph = std::move(graph_);
  graph->end();
  return graph;
}

}  // namespace weft
