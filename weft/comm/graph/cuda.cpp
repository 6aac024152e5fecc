// CUDA graphs, linked if weft is built with CUDA.
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <optional>

#include "weft/comm/graph/device_graph.h"

namespace weft {

namespace {

/// Its memory is in a pool of its own, which no other work uses while it lives.
class CudaGraph : public DeviceGraph {
 public:
  explicit CudaGraph(at::Device device) : device_(device) {}

  ~CudaGraph() override {
    const c10::cuda::CUDAGuard guard(device_);
    graph_.reset();
  }

  /// The default stream cannot be captured. Other threads' calls of CUDA's (watchdogs that ask about events) do not end the
  /// capture; autograd's threads take part, as their streams do.
  void begin() override {
    c10::cuda::getCurrentCUDAStream(device_.index()).synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();  // what eager steps have left
    stream_.emplace(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device_.index()));
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  }

  void end() override {
    graph_.capture_end();
    stream_.reset();
  }

  void replay() override {
    const c10::cuda::CUDAGuard guard(device_);
    graph_.replay();
  }

 private:
  at::Device device_;
  at::cuda::CUDAGraph graph_;
  std::optional<c10::cuda::CUDAStreamGuard> stream_;  ///< current, with its device, while it is captured
};

}  // namespace

std::map<at::DeviceType, MakeDeviceGraph> built_in_graphs() {
  return {{at::kCUDA, [](at::Device device) { return std::make_unique<CudaGraph>(device); }}};
}

}  // namespace weft
