// StepGraph: a rank's step, captured once and replayed: the host issues one launch for all its work.
//
// What changes from step to step is in memory of the device: StepValues, and the micro-batches, which are copied to the place
// that the graph reads.
#pragma once

#include <c10/util/FunctionRef.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/comm/graph/device_graph.h"
#include "weft/engine/axis_groups.h"
#include "weft/engine/micro_batch.h"

namespace weft {

class StepGraph {
 public:
  StepGraph(at::Device device, const AxisGroups& groups) : device_(device), groups_(groups) {}

  /// Takes a step's micro-batches, `count`. Throws InputError if their shapes differ from the captured step's.
  void load(int64_t step, int count, const NextMicroBatch& next);
  /// Captures what `issue` gives the device when it takes the micro-batches from its argument, and keeps its result.
  void capture(c10::function_ref<at::Tensor(const NextMicroBatch&)> issue);
  bool is_captured() const { return graph_ != nullptr; }
  /// Gives the device the step, on what load() took. Returns the result of capture(), with new values.
  const at::Tensor& replay();
  void clear();  ///< forgets the graph, when the device has done its work

 private:
  at::Device device_;
  const AxisGroups& groups_;
  std::vector<MicroBatch> batches_;
  std::unique_ptr<DeviceGraph> graph_;
  at::Tensor result_;
  std::vector<std::pair<Group, Traffic>> calls_;  ///< of the step, by group
  bool counts_calls_ = false;                     ///< capture() has counted those of the first replay
};

}  // namespace weft
