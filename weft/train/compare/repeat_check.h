// RepeatCheck: whether the blocks of a model compute the same twice, in a run and in a second one that is the same.
//
// In the first step of a run each forward is made twice, with the same random numbers, statistics and inputs, and what went in
// and came out is noted, 16 bytes a call, to be compared with the next run. Costs the first step's forwards once more.
#pragma once

#include <memory>

#include "weft/nn/model.h"
#include "weft/train/compare/layout_comparison.h"

namespace weft {

/// Of runs on one device.
class RepeatCheck {
 public:
  RepeatCheck();
  ~RepeatCheck();

  /// The model, watched in the run that follows: the first is what later ones are compared with.
  Model watch(Model model, at::Device device);
  /// What was found so far.
  NotRepeated found() const;

 private:
  class Watched;
  struct Notes;
  std::shared_ptr<Notes> notes_;
};

}  // namespace weft
