// Device graphs of the checked device: `run.graph` without a GPU.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <memory>
#include <optional>

#include "weft/checked_device.h"
#include "weft/comm/graph/device_graph.h"

namespace weft {

/// What a CUDA graph does, by a recording of the checked device.
class RecordedGraph : public DeviceGraph {
 public:
  explicit RecordedGraph(at::Device device) : device_(device) {}
  ~RecordedGraph() override { leave(); }
  void begin() override {
    outer_ = guard_.getStream(device_);
    const c10::Stream own = guard_.getStreamFromGlobalPool(device_, false);
    c10::Event before(device_.type());
    before.record(*outer_);
    before.block(own);
    guard_.exchangeStream(own);
    recording_.emplace(device_.index(), checked_device::Recording::Rules::graph);
  }
  void end() override {
    leave();
    recording_->end();
  }
  void replay() override { recording_->replay(); }

 private:
  void leave() {
    if (outer_) guard_.exchangeStream(*outer_);
    outer_.reset();
  }

  at::Device device_;
  c10::impl::VirtualGuardImpl guard_{device_.type()};
  std::optional<c10::Stream> outer_;
  std::optional<checked_device::Recording> recording_;
};

inline std::unique_ptr<DeviceGraph> make_recorded_graph(at::Device device) { return std::make_unique<RecordedGraph>(device); }

}  // namespace weft
