// CheckOptions: what `weft check` is asked for.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "weft/train/check/check_line.h"

namespace weft {

struct CheckOptions {
  std::string device = "auto";                                  ///< as run.device
  std::string backend = "auto";                                 ///< as layout.backend; "shm", "gloo": ranks may share a device
  std::string weft = "weft";                                    ///< version and build options, for the line "versions"
  std::chrono::milliseconds timeout = std::chrono::minutes(1);  ///< of every wait
  std::function<void(const CheckLine& line)> on_line = {};      ///< called on rank 0 with each line
};

}  // namespace weft
