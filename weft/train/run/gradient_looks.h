// GradientLooks: looks for parameters that do not learn (train/trainer/zero_gradients.h) now and then.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "weft/report/alarms/run_alarms.h"
#include "weft/train/trainer/trainer.h"

namespace weft {

/// Looks after 10, 20, 40, ... steps of this process; three in a row that find the same parameter are an alarm, once.
class GradientLooks {
 public:
  /// After each step, on all ranks; the same on every rank. Collective over the world in steps with a look.
  std::vector<Alarm> after_step(Trainer& trainer);

 private:
  int64_t steps_ = 0, next_ = 10;
  std::map<std::string, int> found_;  ///< looks in a row
};

}  // namespace weft
