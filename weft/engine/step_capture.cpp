// What a step may leave to the device, and its part in a captured one (engine/step_graph.h).
#include <string>
#include <vector>

#include "weft/engine/step_run.h"
#include "weft/nn/device_kernels/step_numbers.h"

namespace weft {

/// Why the host must know a step's numbers before its updates; empty: it need not. The same on all ranks.
std::string StepRun::why_not_late() const {
  if (!updater_.limits()) return "its optimizer waits for the host (ElementWiseUpdate::takes_gate())";
  return program_->flagged > 0 ? "blocks may leave out parameters, whose updates the host counts (Block::always_uses_all())"
                               : "";
}

std::string StepRun::why_not_captured() const {
  if (const std::string why = why_not_late(); !why.empty()) return why;
  return reads_late_ ? "" : "a step has failed";
}

at::Tensor StepRun::finish_captured() {
  wait_for_all();
  works_.clear();  // nothing outside the capture may wait for them
  options_.current->leave();
  return numbers_;
}

void StepRun::add_replayed(int64_t step, const at::Tensor& numbers, bool again) {
  results.add(step, numbers, facts());
  if (!again) return;  // its updates have counted themselves
  std::vector<int> updated;
  for (const Instruction& x : *list_) {
    for (int block = x.first; x.op == Op::update && block < x.last; ++block) updated.push_back(block);
  }
  updater_.count_updates(updated);
}

}  // namespace weft
