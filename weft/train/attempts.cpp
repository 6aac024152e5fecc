#include "weft/train/attempts.h"

#include <fmt/core.h>

#include "weft/base/error.h"

namespace weft {

void Attempts::check() const {
  if (failure_.empty()) return;
  throw Error(
      fmt::format("trainer: {}; what it left behind may be half done, so this trainer does not go on: make a new one, "
                  "with a new model and loader, from weights you saved",
                  failure_));
}

void Attempts::fail(const std::string& what, const std::string& why) {
  if (failure_.empty()) failure_ = fmt::format("{} failed ({})", what, why.substr(0, why.find('\n')));
}

}  // namespace weft
