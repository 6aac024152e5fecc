#include "weft/engine/step_graph.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

void refill(at::Tensor& kept, const at::Tensor& next, int64_t step, int micro, const char* what) {
  if (kept.sizes() == next.sizes() && kept.scalar_type() == next.scalar_type()) {
    kept.copy_(next, /*non_blocking=*/true);
    return;
  }
  throw InputError(fmt::format(
      "step {}, micro-batch {}: its {} is {}, but {} in the captured step; set run.graph = false, or make them alike", step + 1,
      micro, what, type_and_shape(next), type_and_shape(kept)));
}

}  // namespace

void StepGraph::load(int64_t step, int count, const NextMicroBatch& next) {
  if (!graph_) batches_.clear();
  for (int micro = 0; micro < count; ++micro) {
    const MicroBatch batch = next();
    if (batch.upload) batch.upload->wait();
    if (!graph_) {
      MicroBatch kept{.inputs = {}, .target = batch.target.clone()};
      for (const at::Tensor& input : batch.inputs) kept.inputs.push_back(input.clone());
      batches_.push_back(std::move(kept));
      continue;
    }
    MicroBatch& kept = batches_[static_cast<size_t>(micro)];
    if (kept.inputs.size() != batch.inputs.size()) {
      throw InputError(fmt::format("step {}, micro-batch {}: it has {} inputs, but {} in the captured step", step + 1, micro,
                                   batch.inputs.size(), kept.inputs.size()));
    }
    refill(kept.target, batch.target, step, micro, "target");
    for (size_t i = 0; i < batch.inputs.size(); ++i) refill(kept.inputs[i], batch.inputs[i], step, micro, "input");
  }
}

void StepGraph::capture(c10::function_ref<at::Tensor(const NextMicroBatch&)> issue) {
  std::vector<std::pair<Group, Traffic>> before;
  for (const Group& group : groups_.all()) before.emplace_back(group, group.traffic());
  auto batch = batches_.begin();
  Capture capture(device_, device_graphs(device_.type()));
  result_ = issue([&] { return *batch++; });
  graph_ = capture.end();
  calls_.clear();
  for (const auto& [group, earlier] : before) {
    const Traffic now = group.traffic();
    if (now.calls > earlier.calls) calls_.emplace_back(group, Traffic{now.calls - earlier.calls, now.bytes - earlier.bytes});
  }
  counts_calls_ = false;
}

const at::Tensor& StepGraph::replay() {
  for (const auto& [group, calls] : calls_) group.throw_if_failed();
  graph_->replay();
  for (const auto& [group, calls] : calls_) group.replayed(counts_calls_ ? calls : Traffic(), "captured step");
  counts_calls_ = true;
  return result_;
}

void StepGraph::clear() {
  if (graph_) {
    const c10::impl::VirtualGuardImpl device(device_.type());
    device.synchronizeStream(device.getStream(device_));
  }
  graph_.reset();
  result_.reset();
  batches_.clear();
  calls_.clear();
}

}  // namespace weft
