// RepeatCheck: checks that a model's blocks repeat their results, within a run and in an identical second run.
//
// In the first step of a run each forward runs twice, with the same random numbers, statistics and inputs, and hashes of inputs
// and outputs, 16 bytes per call, are kept for the next run. Costs the first step's forwards once more.
#pragma once

#include <memory>

#include "weft/nn/model.h"
#include "weft/train/compare/layout_comparison.h"

namespace weft {

/// For runs on one device.
class RepeatCheck {
 public:
  RepeatCheck();
  ~RepeatCheck();

  /// Wraps the model to watch it in the next run; later runs are compared with the first.
  Model watch(Model model, at::Device device);
  /// The result so far.
  NotRepeated found() const;

 private:
  class Watched;
  struct Notes;
  std::shared_ptr<Notes> notes_;
};

}  // namespace weft
